//! A directory as it was before, and what was written where.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What every planted secret has in it.
pub(crate) const PLANTED: &str = "PLANTED";
/// The same in base64, at each of the three places in which it may fall.
const ENCODED: [&str; 3] = ["UExBTlRF", "BMQU5URU", "QTEFOVEV"];

/// Every entry under a directory: its mode, and what is in it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Snapshot(BTreeMap<PathBuf, (u32, Vec<u8>)>);

impl Snapshot {
    pub(crate) fn of(root: &Path) -> Self {
        let mut entries = BTreeMap::new();
        walk(root, &mut |path| {
            let mode =
                std::fs::symlink_metadata(path).map_or(0, |found| found.permissions().mode());
            entries.insert(path.to_owned(), (mode, content(path)));
        });
        Self(entries)
    }

    /// Names what is not as it was.
    pub(crate) fn changes(&self, root: &Path) -> Vec<String> {
        let now = Self::of(root);
        let gone = self
            .0
            .keys()
            .filter(|path| !now.0.contains_key(*path))
            .map(|path| format!("{} is gone", path.display()));
        let changed = now
            .0
            .iter()
            .filter(|(path, entry)| self.0.get(*path) != Some(entry))
            .map(|(path, _)| format!("{} was changed", path.display()));
        gone.chain(changed).collect()
    }
}

/// Visits all entries, without following links.
fn walk(directory: &Path, visit: &mut impl FnMut(&Path)) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        visit(&entry.path());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), visit);
        }
    }
}

fn content(path: &Path) -> Vec<u8> {
    match std::fs::read_link(path) {
        Ok(target) => target.to_string_lossy().into_owned().into_bytes(),
        Err(_) => std::fs::read(path).unwrap_or_default(),
    }
}

/// Names the files and streams that have a planted secret in them, in their name or their content.
pub(crate) fn leaks(directories: &[PathBuf]) -> Vec<String> {
    let mut leaks = Vec::new();
    for directory in directories {
        walk(directory, &mut |path| {
            let bytes = [path.to_string_lossy().as_bytes(), b"\n", &content(path)].concat();
            let at = |needle: &str| {
                bytes
                    .windows(needle.len())
                    .position(|window| window.eq_ignore_ascii_case(needle.as_bytes()))
            };
            let exactly = |needle: &str| {
                bytes
                    .windows(needle.len())
                    .position(|window| window == needle.as_bytes())
            };
            if let Some(at) =
                at(PLANTED).or_else(|| ENCODED.iter().find_map(|needle| exactly(needle)))
            {
                let around = &bytes[at.saturating_sub(120)..bytes.len().min(at + 80)];
                leaks.push(format!(
                    "a secret is in {}: {}",
                    path.display(),
                    String::from_utf8_lossy(around).replace(char::is_control, " ")
                ));
            }
        });
    }
    leaks
}
