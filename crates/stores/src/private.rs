//! Files and directories of the state: private to their owner, or shared with a configured group,
//! regardless of the umask. Existing files keep their permissions.

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;
use std::sync::OnceLock;

/// The group that shares the state of this process, if any.
static SHARED_STATE_GROUP: OnceLock<u32> = OnceLock::new();

/// Shares new files and directories with a group, given by its name or number. Only the first call
/// has an effect, for the whole process.
///
/// # Errors
/// Returns an error if the group does not exist.
pub fn share_with(group: &str) -> Result<(), String> {
    let found = group.parse().ok().or_else(|| {
        number_of(
            group,
            &std::fs::read_to_string("/etc/group").unwrap_or_default(),
        )
    });
    let number = found.ok_or_else(|| format!("there is no group '{group}' on this machine"))?;
    let _ = SHARED_STATE_GROUP.set(number);
    Ok(())
}

/// Returns the number of the group that shares the state of this process; `None` if the state is
/// private.
#[must_use]
pub fn sharing_group() -> Option<u32> {
    SHARED_STATE_GROUP.get().copied()
}

/// Returns the number of a group in the system's list.
fn number_of(group: &str, list: &str) -> Option<u32> {
    list.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(group)).then(|| fields.nth(1)?.parse().ok())?
    })
}

/// Sets the permissions of the open file, because its path may name another file by now.
fn set_permissions(made: &File, private: u32, shared: u32) -> io::Result<()> {
    let Some(group) = SHARED_STATE_GROUP.get() else {
        return made.set_permissions(Permissions::from_mode(private));
    };
    fchown(made, None, Some(*group))?;
    made.set_permissions(Permissions::from_mode(shared))
}

/// Creates a directory and its missing parents. An existing directory is not changed.
///
/// # Errors
/// Returns an error if the directory cannot be created.
pub fn make_directory(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        make_directory(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => set_permissions(&open_directory(path)?, 0o700, 0o2770),
        // Another process was first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

fn open_directory(path: &Path) -> io::Result<File> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    File::options().read(true).custom_flags(flags).open(path)
}

/// Creates an empty file if it does not exist, so that code which opens it by path finds its
/// permissions.
///
/// # Errors
/// Returns an error if the file cannot be created.
pub fn make_file(path: &Path) -> io::Result<()> {
    match File::options()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)
    {
        Ok(made) => set_permissions(&made, 0o600, 0o660),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Refuses a symbolic link in place of a database of this program. SQLite follows the link, and
/// could create or change a file at any path.
///
/// # Errors
/// Returns an error if the path is a link.
pub fn refuse_link(path: &Path) -> io::Result<()> {
    if std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        return Err(io::Error::other(
            "it is a symbolic link, and a database would be written wherever it leads",
        ));
    }
    Ok(())
}

/// Returns whether other users may read or write a file: any user, or a group with which the state
/// is not shared.
#[must_use]
pub fn is_open_to_others(path: &Path) -> bool {
    let others = if SHARED_STATE_GROUP.get().is_some() {
        0o007
    } else {
        0o077
    };
    std::fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & others != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o7777
    }

    #[test]
    fn new_files_are_private_and_existing_ones_stay_as_they_are() {
        let directory = tempfile::tempdir().expect("a directory");
        let (new, file) = (directory.path().join("a/b"), directory.path().join("a/b/c"));
        make_directory(&new).expect("it is made");
        make_file(&file).expect("it is made");
        assert_eq!(
            (mode(&new), mode(&directory.path().join("a")), mode(&file)),
            (0o700, 0o700, 0o600)
        );
        std::fs::set_permissions(&new, Permissions::from_mode(0o755)).expect("changed");
        make_directory(&new).expect("it is there");
        assert_eq!(mode(&new), 0o755);
        assert!(is_open_to_others(&new) && !is_open_to_others(&file));
    }

    #[test]
    fn links_are_refused_whether_they_lead_somewhere_or_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        assert!(refuse_link(&link).is_err(), "it leads nowhere");
        make_file(&file).expect("it is made");
        assert!(refuse_link(&link).is_err(), "it leads to a file");
        refuse_link(&file).expect("a file is no link");
        refuse_link(&directory.path().join("none")).expect("nothing is no link");
    }

    #[test]
    fn groups_are_found_by_name() {
        let list = "root:x:0:\nlab:x:2001:ann,bob\n";
        assert_eq!(
            (number_of("lab", list), number_of("la", list)),
            (Some(2001), None)
        );
    }
}
