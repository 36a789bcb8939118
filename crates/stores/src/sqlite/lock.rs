//! The wait for the lock file, in order and for a limited time.
//!
//! The system wakes threads that block on a lock in their order of arrival, but offers no timeout.
//! Therefore a thread blocks, and the operation waits for the thread. The operation gives up after
//! a timeout, as when the holder was stopped. A lock that the thread acquires later is released at
//! once.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::fs::{FlockOperation, flock};

/// The stage of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LockStage {
    /// No wait is in progress.
    Idle,
    /// The thread blocks, or is about to. `wanted` is set while an operation still waits for the
    /// lock.
    Blocking { wanted: bool },
    /// The lock belongs to the operation that waits.
    Taken,
    /// The lock cannot be taken at all.
    Failed,
    /// The thread ends.
    Ended,
}

struct LockState {
    file: File,
    stage: Mutex<LockStage>,
    changed: Condvar,
}

/// A lock file with a wait.
pub(super) struct FileLock {
    shared: Arc<LockState>,
    has_thread: bool,
}

/// The lock, until the guard is dropped.
pub(super) struct LockGuard(Arc<LockState>);

impl Drop for LockGuard {
    fn drop(&mut self) {
        // The lock is released with the file at the latest.
        let _ = flock(&self.0.file, FlockOperation::Unlock);
    }
}

impl FileLock {
    pub(super) fn new(file: File) -> Self {
        Self {
            shared: Arc::new(LockState {
                file,
                stage: Mutex::new(LockStage::Idle),
                changed: Condvar::new(),
            }),
            has_thread: false,
        }
    }

    /// Takes the lock if it is free.
    pub(super) fn try_take(&self) -> std::io::Result<Option<LockGuard>> {
        // The thread may still own the lock briefly for an operation that has given up.
        if *self.shared.stage.lock() != LockStage::Idle {
            return Ok(None);
        }
        loop {
            match flock(&self.shared.file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(LockGuard(Arc::clone(&self.shared)))),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for the lock, in order. Returns `None` if the wait exceeds `timeout`.
    pub(super) fn take_within(&mut self, timeout: Duration) -> std::io::Result<Option<LockGuard>> {
        if let Some(guard) = self.try_take()? {
            return Ok(Some(guard));
        }
        if !self.has_thread {
            let shared = Arc::clone(&self.shared);
            std::thread::Builder::new()
                .name("state-lock".to_owned())
                .spawn(move || block(&shared))?;
            self.has_thread = true;
        }
        let mut stage = self.shared.stage.lock();
        *stage = LockStage::Blocking { wanted: true };
        self.shared.changed.notify_all();
        let is_blocking = |stage: &mut LockStage| matches!(stage, LockStage::Blocking { .. });
        let waited = self
            .shared
            .changed
            .wait_while_for(&mut stage, is_blocking, timeout);
        match *stage {
            LockStage::Taken => {
                *stage = LockStage::Idle;
                Ok(Some(LockGuard(Arc::clone(&self.shared))))
            }
            LockStage::Blocking { .. } if waited.timed_out() => {
                *stage = LockStage::Blocking { wanted: false };
                Ok(None)
            }
            _ => {
                *stage = LockStage::Idle;
                Err(std::io::Error::other("the lock file cannot be locked"))
            }
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        *self.shared.stage.lock() = LockStage::Ended;
        self.shared.changed.notify_all();
    }
}

/// Blocks on the lock whenever an operation waits for it.
fn block(shared: &LockState) {
    loop {
        {
            let mut stage = shared.stage.lock();
            shared.changed.wait_while(&mut stage, |stage| {
                !matches!(stage, LockStage::Blocking { .. } | LockStage::Ended)
            });
            if *stage == LockStage::Ended {
                return;
            }
        }
        let locked = loop {
            match flock(&shared.file, FlockOperation::LockExclusive) {
                Err(rustix::io::Errno::INTR) => {}
                locked => break locked,
            }
        };
        let mut stage = shared.stage.lock();
        let is_wanted = *stage == LockStage::Blocking { wanted: true };
        match locked {
            Ok(()) if is_wanted => *stage = LockStage::Taken,
            Ok(()) => {
                let _ = flock(&shared.file, FlockOperation::Unlock);
                if *stage != LockStage::Ended {
                    *stage = LockStage::Idle;
                }
            }
            Err(_) if is_wanted => *stage = LockStage::Failed,
            Err(_) => {}
        }
        shared.changed.notify_all();
        if *stage == LockStage::Ended {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_never_freed_is_given_up_and_found_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("lock");
        let open = || {
            File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)
                .expect("a file")
        };
        let mut lock = FileLock::new(open());
        let other = FileLock::new(open());
        let guard = other.try_take().expect("it works").expect("it is free");
        assert!(lock.try_take().expect("it works").is_none());
        assert!(
            lock.take_within(Duration::from_millis(20))
                .expect("it works")
                .is_none()
        );
        assert!(
            lock.take_within(Duration::from_millis(20))
                .expect("it works")
                .is_none()
        );
        drop(guard);
        let taken = lock
            .take_within(Duration::from_secs(5))
            .expect("it works")
            .expect("it is free again");
        assert!(other.try_take().expect("it works").is_none());
        drop(taken);
        assert!(other.try_take().expect("it works").is_some());
    }
}
