//! The messages for errors of the database.

use std::path::Path;

use rusqlite::ErrorCode;

use super::StepError;
use crate::error::StoreError;

pub(super) fn directory_of(path: &Path) -> &Path {
    path.parent()
        .filter(|directory| !directory.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

pub(super) fn name(path: &Path) -> String {
    format!("the state database {}", path.display())
}

pub(super) fn cannot_write(path: &Path, why: &str) -> StoreError {
    StoreError::Unusable {
        store: name(path),
        why: why.to_owned(),
        remedy: "choose a directory that can be written with --state-dir".to_owned(),
    }
}

/// Returns the [`StoreError`] for a link in place of the database.
pub(super) fn is_link(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Unusable {
        store: name(path),
        why: error.to_string(),
        remedy: "remove the link, or name the file itself (limits.backend.dsn, --rate-dsn)"
            .to_owned(),
    }
}

/// Returns whether the disk has space for a few pages.
fn has_room(path: &Path) -> bool {
    rustix::fs::statvfs(directory_of(path))
        .is_ok_and(|found| found.f_bavail * found.f_frsize >= 1 << 17)
}

/// Returns the [`StoreError`] for a lock that is not released.
pub(super) fn locked(path: &Path) -> StoreError {
    let why =
        "another process holds its lock and does not go on; it may have been stopped".to_owned();
    StoreError::Unavailable {
        store: name(path),
        why,
    }
}

/// Returns the [`StoreError`] for an error of SQLite, with the action for the user.
pub(super) fn explain(path: &Path, error: &StepError) -> StoreError {
    let unusable = |why: &str, remedy: &str| StoreError::Unusable {
        store: name(path),
        why: why.to_owned(),
        remedy: remedy.to_owned(),
    };
    let full = || {
        unusable(
            "the disk is full",
            "make room, or choose another directory with --state-dir",
        )
    };
    let error = match error {
        StepError::Corrupt => {
            return unusable(
                "a record in it is corrupt",
                "move the file away to start with fresh limits",
            );
        }
        StepError::Sqlite(error) => error,
    };
    match error.sqlite_error_code() {
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            unusable(
                "it cannot be written",
                "make it and its directory writable, or choose another with --state-dir",
            )
        }
        // In mapped memory, SQLite reports a full disk as a failure of I/O.
        Some(ErrorCode::SystemIoFailure) if !has_room(path) => full(),
        Some(ErrorCode::DiskFull) => full(),
        Some(ErrorCode::SystemIoFailure) => unusable(
            "its disk cannot be read or written",
            "check the disk, or choose another directory with --state-dir",
        ),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => unusable(
            "the file is not a database, or is damaged",
            "move the file away to start with fresh limits",
        ),
        _ => StoreError::Unavailable {
            store: name(path),
            why: error.to_string(),
        },
    }
}
