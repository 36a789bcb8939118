//! A connection to the index that opens again when the index was replaced, and replaces a damaged
//! index.

use rusqlite::{Connection, ErrorCode};

use super::DiskCore;
use super::layout::{name, unusable};
use super::schema::{OpenError, connect, is_damage};
use crate::cache::warning::CacheTrouble;
use crate::error::StoreError;

/// The connection of one thread to the index, opened at its first use, and again after a failure.
#[derive(Default)]
pub(in super::super) struct DiskIndex(Option<OpenIndex>);

struct OpenIndex {
    connection: Connection,
    /// The inode of the index file.
    inode: Option<u64>,
    /// The number of replacements of the index when the connection was opened.
    replacements: u64,
}

impl OpenIndex {
    /// Returns whether this is the index that other processes use.
    fn is_current(&self, core: &DiskCore) -> bool {
        self.replacements == core.marks.replacements() && self.inode == core.layout.index_inode()
    }
}

impl DiskIndex {
    /// Opens the index; a damaged index is replaced.
    pub(super) fn open(core: &DiskCore) -> Result<Self, StoreError> {
        let mut index = Self::default();
        index.ensure_open(core)?;
        Ok(index)
    }

    fn ensure_open(&mut self, core: &DiskCore) -> Result<&Connection, StoreError> {
        // A user may have removed the directory, so that other processes use a new one.
        if self
            .0
            .as_ref()
            .is_some_and(|opened| !opened.is_current(core))
        {
            self.0 = None;
            core.memory.lock().clear();
        }
        let opened = match self.0.take() {
            Some(opened) => opened,
            None => open(core)?,
        };
        Ok(&self.0.insert(opened).connection)
    }

    /// Runs work on the index. An error is reported once, and a damaged index is replaced.
    pub(super) fn read<T>(
        &mut self,
        core: &DiskCore,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let done = self.ensure_open(core).map(|connection| {
            if !connection.is_autocommit() {
                // Work that panicked left its transaction open.
                let _ = connection.execute_batch("ROLLBACK");
            }
            work(connection)
        });
        match done {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error)) => Err(self.failed(core, &error)),
            Err(error) => {
                let text = || format!("{error}; requests go on without it");
                core.warnings.report(CacheTrouble::IndexFailed, text);
                Err(error)
            }
        }
    }

    /// Runs work in one write transaction, of which SQLite admits only one at a time among all
    /// processes.
    pub(super) fn write<T>(
        &mut self,
        core: &DiskCore,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.read(core, |connection| {
            connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            let done = work(connection).and_then(|done| {
                connection.prepare_cached("COMMIT")?.execute([])?;
                Ok(done)
            });
            if done.is_err() && !connection.is_autocommit() {
                let _ = connection.execute_batch("ROLLBACK");
            }
            done
        })
    }

    /// Reports a [`StoreError`], and replaces the index or opens it again if necessary.
    fn failed(&mut self, core: &DiskCore, error: &rusqlite::Error) -> StoreError {
        if is_damage(error) {
            return self.replace(core, &format!("is damaged ({error})"));
        }
        let moved = self.0.as_ref().map(|opened| opened.inode) != Some(core.layout.index_inode());
        if moved {
            // The index was removed or replaced, so the next use opens the current one.
            self.0 = None;
        }
        let why = match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => "the disk is full".to_owned(),
            Some(ErrorCode::ReadOnly) if !moved => "its index cannot be written".to_owned(),
            Some(ErrorCode::DatabaseBusy) => "another process keeps its index locked".to_owned(),
            _ => error.to_string(),
        };
        let error = StoreError::Unavailable {
            store: name(&core.layout.root),
            why,
        };
        let text = || format!("{error}; requests go on without it");
        core.warnings.report(CacheTrouble::IndexFailed, text);
        error
    }

    /// Moves the index aside, unless another process has done so. The next use creates a new index.
    pub(super) fn replace(&mut self, core: &DiskCore, why: &str) -> StoreError {
        let inode = self.0.take().and_then(|opened| opened.inode);
        let replaced = core.layout.lock().and_then(|_lock| {
            if inode.is_some() && inode != core.layout.index_inode() {
                return Ok(());
            }
            set_aside(core, why)
        });
        replaced.err().unwrap_or_else(|| StoreError::Forgot {
            store: name(&core.layout.root),
        })
    }
}

/// Moves the index aside. The caller holds the lock of the directory, so that connections which
/// notice the counter open the new index.
fn set_aside(core: &DiskCore, why: &str) -> Result<(), StoreError> {
    core.marks.replaced();
    core.layout
        .set_index_aside()
        .map_err(|error| unusable(&core.layout.root, error.to_string()))?;
    core.warnings.report(CacheTrouble::IndexReplaced, || {
        let root = core.layout.root.display();
        format!(
            "the index of the cache {root} {why}; it was set aside as damaged.sqlite, \
             and the cache starts empty"
        )
    });
    Ok(())
}

/// Opens a connection. An index that is damaged or of another version is moved aside.
fn open(core: &DiskCore) -> Result<OpenIndex, StoreError> {
    let _lock = core.layout.lock()?;
    core.layout.make_directories()?;
    let connection = match connect(&core.layout) {
        Err(OpenError::Damaged(why)) => {
            set_aside(core, &why)?;
            connect(&core.layout)
        }
        opened => opened,
    };
    let connection = connection.map_err(|error| {
        let why = match error {
            OpenError::Damaged(why) => format!("its index {why}"),
            OpenError::Io(error) => error.to_string(),
            OpenError::Sqlite(error) => match error.sqlite_error_code() {
                Some(ErrorCode::DiskFull) => "the disk is full".to_owned(),
                Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly) => {
                    "its index cannot be opened for writing, or is a link".to_owned()
                }
                _ => error.to_string(),
            },
        };
        unusable(&core.layout.root, why)
    })?;
    Ok(OpenIndex {
        connection,
        inode: core.layout.index_inode(),
        replacements: core.marks.replacements(),
    })
}
