//! Durable renames in batches. While one batch is synchronised, the next one is collected.
//!
//! The contents of a file are synchronised before its rename. Each directory is synchronised once
//! per batch, after all renames in it. So the number of synchronisations depends on the batches and
//! not on the number of files, and no name appears before its contents are on the disk.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// A file whose contents are written, but which is not synchronised and renamed yet.
struct PendingSync {
    file: File,
    part: PathBuf,
    path: PathBuf,
    done: oneshot::Sender<io::Result<()>>,
}

#[derive(Default)]
struct SyncQueue {
    waiting: Vec<PendingSync>,
    busy: bool,
}

/// Collects files and commits them in batches, on a thread that runs only while files wait.
#[derive(Clone, Default)]
pub(crate) struct Syncer {
    queue: Arc<Mutex<SyncQueue>>,
}

impl Syncer {
    /// Synchronises the contents of `part`, renames it to `path`, and synchronises the directory.
    ///
    /// # Errors
    /// Returns the first [`io::Error`] of these steps.
    pub(crate) async fn commit(&self, file: File, part: &Path, path: &Path) -> io::Result<()> {
        let (done, outcome) = oneshot::channel();
        self.put(PendingSync {
            file,
            part: part.to_owned(),
            path: path.to_owned(),
            done,
        })?;
        outcome
            .await
            .unwrap_or_else(|_| Err(io::Error::other("the sync thread ended early")))
    }

    fn put(&self, pending: PendingSync) -> io::Result<()> {
        let mut queue = self.queue.lock();
        queue.waiting.push(pending);
        if !queue.busy {
            queue.busy = true;
            let queue = Arc::clone(&self.queue);
            std::thread::Builder::new()
                .name("docstokg-sync".to_owned())
                .spawn(move || drain(&queue))?;
        }
        Ok(())
    }
}

fn drain(queue: &Mutex<SyncQueue>) {
    loop {
        let batch = {
            let mut queue = queue.lock();
            if queue.waiting.is_empty() {
                queue.busy = false;
                return;
            }
            std::mem::take(&mut queue.waiting)
        };
        commit_batch(batch);
    }
}

fn commit_batch(batch: Vec<PendingSync>) {
    let mut named = Vec::with_capacity(batch.len());
    for pending in batch {
        match pending
            .file
            .sync_all()
            .and_then(|()| std::fs::rename(&pending.part, &pending.path))
        {
            Ok(()) => named.push(pending),
            Err(error) => report(pending, Err(error)),
        }
    }
    let directories: BTreeSet<&Path> = named
        .iter()
        .filter_map(|pending| pending.path.parent())
        .collect();
    let synced: Vec<(PathBuf, io::Result<()>)> = directories
        .into_iter()
        .map(|directory| (directory.to_owned(), sync_directory(directory)))
        .collect();
    for pending in named {
        let failed = synced.iter().find(|(directory, result)| {
            pending.path.parent() == Some(directory) && result.is_err()
        });
        let outcome = failed
            .and_then(|(_, result)| result.as_ref().err())
            .map_or(Ok(()), |error| {
                Err(io::Error::new(error.kind(), error.to_string()))
            });
        report(pending, outcome);
    }
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    let directory = if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    };
    File::open(directory)?.sync_all()
}

fn report(pending: PendingSync, outcome: io::Result<()>) {
    // The request may have been cancelled. The rename is valid all the same.
    let _ = pending.done.send(outcome);
}
