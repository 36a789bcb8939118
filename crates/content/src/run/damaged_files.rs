//! Files of an earlier run that were damaged since: the next one fetches them again.
//!
//! A run may have a hundred thousand files, so not all of them are read. The directory entry of
//! each tells whether its file may have changed, and only those files are judged. A file that was
//! changed and is whole stays, as does the record of one that was moved away.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use docstokg_bulk::directory::{Directory, DirectoryError};
use docstokg_bulk::queue::FileRow;
use docstokg_hub::clock::Timestamp;

use crate::artifact::flaw_of;
use crate::sniff::ExpectedContent;
use crate::work_state::ArtifactKind;

/// The unit in which file systems count the space that a file has.
const BLOCK_BYTES: u64 = 512;

/// Removes damaged files and queues their works anew. Returns what is wrong with which.
///
/// # Errors
/// The queue cannot be read or written.
pub async fn requeue_damaged(
    directory: &Directory,
) -> Result<Vec<(String, &'static str)>, DirectoryError> {
    let mut damaged = Vec::new();
    for file in directory.queue.files().await? {
        let place = directory.path.join(&file.path);
        let Ok(meta) = fs::metadata(&place) else {
            continue;
        };
        // What cannot be read now is no damage.
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

/// Tells whether a file has another length, was written to after it was recorded, or has less space
/// on the disk than its length, as after a crash.
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

/// Says what is wrong with a file that may have changed.
fn flaw_since_recorded(place: &Path, meta: &Metadata, file: &FileRow) -> Option<&'static str> {
    let is_pdf = place.extension().is_some_and(|ending| ending == "pdf");
    if is_pdf && file.classification != ArtifactKind::Other.as_str() {
        return flaw_of(place, ExpectedContent::Pdf, 0);
    }
    let is_shorter = meta.len() < file.bytes;
    is_shorter.then_some("it is shorter than it was")
}
