//! Detection of files from an earlier run that were damaged since. The next run fetches them again.
//!
//! A run may have a hundred thousand files, so not all are read. The directory entry of each file
//! tells whether it may have changed, and only changed files are judged. A changed file without
//! damage stays. The record of a file that was moved elsewhere stays, too.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use docstokg_bulk::directory::{Directory, DirectoryError};
use docstokg_bulk::queue::FileRow;
use docstokg_hub::clock::Timestamp;

use crate::artifact::flaw_of;
use crate::sniff::ExpectedContent;
use crate::work_state::ArtifactKind;

/// The unit in which file systems report allocated space.
const BLOCK_BYTES: u64 = 512;

/// Removes damaged files and queues their works again. Returns the paths of the files, each with
/// its damage.
///
/// # Errors
/// Returns a [`DirectoryError`] if the queue cannot be read or written.
pub async fn requeue_damaged(
    directory: &Directory,
) -> Result<Vec<(String, &'static str)>, DirectoryError> {
    let mut damaged = Vec::new();
    for file in directory.queue.files().await? {
        let place = directory.path.join(&file.path);
        let Ok(meta) = fs::metadata(&place) else {
            continue;
        };
        // A file that cannot be read now is not known to be damaged.
        let flaw = if may_have_changed(&meta, &file) && fs::File::open(&place).is_ok() {
            flaw_since_recorded(&place, &meta, &file)
        } else {
            None
        };
        if let Some(flaw) = flaw {
            directory.queue.disown(file.item, file.path.clone()).await?;
            let _ = fs::remove_file(&place);
            damaged.push((file.path, flaw));
        }
    }
    Ok(damaged)
}

/// Tells whether a file may have changed since its record: its length differs, it was written
/// later, or it has less allocated space than its length, as after a crash.
fn may_have_changed(meta: &Metadata, file: &FileRow) -> bool {
    let written = Timestamp::from_micros(
        meta.mtime()
            .saturating_mul(1_000_000)
            .saturating_add(meta.mtime_nsec() / 1_000),
    );
    file.bytes != meta.len()
        || written > file.recorded_at
        || meta.blocks().saturating_mul(BLOCK_BYTES) < meta.len()
}

/// Returns the damage of a file that may have changed.
fn flaw_since_recorded(place: &Path, meta: &Metadata, file: &FileRow) -> Option<&'static str> {
    let is_pdf = place.extension().is_some_and(|ending| ending == "pdf");
    if is_pdf && file.classification != ArtifactKind::Other.as_str() {
        return flaw_of(place, ExpectedContent::Pdf, 0);
    }
    let is_shorter = meta.len() < file.bytes;
    is_shorter.then_some("it is shorter than it was")
}
