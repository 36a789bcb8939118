//! The files of a run: their fetcher, the owners of URLs, the layout, and the free space.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use docstokg_bulk::scheduler::RunError;
use docstokg_bulk::staging::KnownDirectories;
use docstokg_hub::clock::BootInstant;
use parking_lot::Mutex;

use super::RunOptions;
use crate::artifact::Fetcher;
use crate::digest::Fingerprint;

/// Minimum interval between two checks of the free space.
const SPACE_CHECK: Duration = Duration::from_millis(50);

/// The files of a run, with the [`Fetcher`] that gets them.
pub(super) struct RunFiles {
    pub(super) fetcher: Fetcher,
    out: PathBuf,
    min_free: u64,
    directories: KnownDirectories,
    /// The URLs that led to a file, with the items that own the files.
    owners: Mutex<HashMap<Fingerprint, i64>>,
    space_checked: Mutex<Option<BootInstant>>,
}

impl RunFiles {
    /// Creates the state from the items that already own files.
    pub(super) fn new(
        fetcher: Fetcher,
        options: &RunOptions,
        owners: HashMap<Fingerprint, i64>,
    ) -> Self {
        Self {
            fetcher,
            out: options.out.clone(),
            min_free: options.min_free,
            directories: KnownDirectories::below(&options.out),
            owners: Mutex::new(owners),
            space_checked: Mutex::default(),
        }
    }

    /// Returns the item that owns the file of a URL.
    pub(super) fn owner_of(&self, url: Fingerprint) -> Option<i64> {
        self.owners.lock().get(&url).copied()
    }

    /// Records that an item owns the file of a URL.
    pub(super) fn own(&self, url: Fingerprint, item: i64) {
        self.owners.lock().insert(url, item);
    }

    /// Forgets the files of an item: the next work with one of its URLs fetches the file.
    pub(super) fn disown(&self, item: i64) {
        self.owners.lock().retain(|_, owner| *owner != item);
    }

    /// Creates the directory of a file.
    pub(super) fn create_directory_of(&self, file: &Path) -> Result<(), RunError> {
        let directory = file.parent().unwrap_or(&self.out);
        self.directories
            .create(directory)
            .map_err(|error| unwritable(directory, &error))
    }

    /// Renames a complete file to its final path.
    pub(super) async fn rename(&self, staged: &Path, file: &Path) -> Result<(), RunError> {
        let hub = &self.fetcher.context.hub;
        let renamed = match hub.keep(staged, file).await {
            // The directory was removed in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let directory = file.parent().unwrap_or(&self.out);
                self.directories
                    .create_again(directory)
                    .map_err(|error| unwritable(directory, &error))?;
                hub.keep(staged, file).await
            }
            renamed => renamed,
        };
        renamed.map_err(|error| unwritable(file, &error))
    }

    /// Ends the run with a [`RunError`] before the disk is full.
    pub(super) fn check_space(&self) -> Result<(), RunError> {
        let now = self.fetcher.context.clock.runtime().boot();
        {
            let mut checked = self.space_checked.lock();
            if checked.is_some_and(|checked| now.since(checked) < SPACE_CHECK) {
                return Ok(());
            }
            *checked = Some(now);
        }
        let Ok(space) = rustix::fs::statvfs(&self.out) else {
            return Ok(());
        };
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if free >= self.min_free {
            return Ok(());
        }
        Err(RunError::Halted(format!(
            "{} has {} MiB left, less than the {} MiB that are kept free; make room and go on with --resume",
            self.out.display(),
            free >> 20,
            self.min_free >> 20
        )))
    }
}

/// Describes a path that cannot be written.
pub(super) fn unwritable(path: &Path, error: &io::Error) -> RunError {
    RunError::Halted(format!("{} cannot be written: {error}", path.display()))
}
