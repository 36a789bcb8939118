//! A mutex in memory that several processes share.

use std::cell::UnsafeCell;
use std::io;
use std::mem::size_of;
use std::time::Duration;

pub(super) fn check(failed: libc::c_int) -> io::Result<()> {
    if failed == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(failed))
    }
}

/// A mutex in shared memory. If its holder dies, the next process recovers it.
#[repr(transparent)]
pub(in super::super) struct SharedMutex(pub(super) UnsafeCell<libc::pthread_mutex_t>);

/// The bytes that a mutex takes.
pub(in super::super) const MUTEX: usize = size_of::<libc::pthread_mutex_t>().next_multiple_of(8);
/// How often a waiter spins before it sleeps.
const SPIN_ATTEMPTS: u32 = 8;

/// How long a waiter spins between two attempts, in nanoseconds. Meanwhile the holder runs many
/// operations with the memory in its cache, which two processes that alternate would move for every
/// operation; to sleep and to wake takes longer.
const SPIN_NANOS: i64 = 10_000;

/// Proof that a mutex is held.
pub(in super::super) struct SharedMutexGuard<'a>(&'a SharedMutex);

impl SharedMutex {
    /// Takes the mutex, waiting no longer than `timeout` for its holder.
    #[inline]
    pub(in super::super) fn lock(&self, timeout: Duration) -> io::Result<SharedMutexGuard<'_>> {
        match self.try_lock()? {
            Some(guard) => Ok(guard),
            None => self.wait(timeout),
        }
    }

    /// Takes the mutex if it is free.
    #[inline]
    fn try_lock(&self) -> io::Result<Option<SharedMutexGuard<'_>>> {
        // SAFETY: the mutex was made before its offset was published, and is never destroyed.
        match unsafe { libc::pthread_mutex_trylock(self.0.get()) } {
            0 => Ok(Some(SharedMutexGuard(self))),
            libc::EBUSY => Ok(None),
            libc::EOWNERDEAD => self.recover().map(Some),
            failed => Err(io::Error::from_raw_os_error(failed)),
        }
    }

    /// Waits for the holder: spins first, then sleeps.
    #[cold]
    fn wait(&self, timeout: Duration) -> io::Result<SharedMutexGuard<'_>> {
        for _ in 0..SPIN_ATTEMPTS {
            spin_for(SPIN_NANOS);
            if let Some(guard) = self.try_lock()? {
                return Ok(guard);
            }
        }
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let nanos = now.tv_nsec.unsigned_abs() + u64::from(timeout.subsec_nanos());
        let seconds = timeout.as_secs() + nanos / 1_000_000_000;
        let until = libc::timespec {
            tv_sec: now.tv_sec + libc::time_t::try_from(seconds).unwrap_or(1),
            tv_nsec: libc::c_long::try_from(nanos % 1_000_000_000).unwrap_or(0),
        };
        // SAFETY: as in `lock`; the timespec is well-formed.
        match unsafe { libc::pthread_mutex_timedlock(self.0.get(), &raw const until) } {
            0 => Ok(SharedMutexGuard(self)),
            libc::EOWNERDEAD => self.recover(),
            libc::ETIMEDOUT => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "another process holds its lock and does not go on",
            )),
            failed => Err(io::Error::from_raw_os_error(failed)),
        }
    }

    /// Recovers the mutex of a holder that died. Its data is complete up to its last commit:
    /// records are flipped in one write.
    #[cold]
    fn recover(&self) -> io::Result<SharedMutexGuard<'_>> {
        // SAFETY: the mutex is held by this thread, in the state that this call ends.
        check(unsafe { libc::pthread_mutex_consistent(self.0.get()) })?;
        Ok(SharedMutexGuard(self))
    }
}

/// Spins for a number of nanoseconds.
fn spin_for(nanos: i64) {
    let now = || rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let start = now();
    loop {
        (0..16).for_each(|_| std::hint::spin_loop());
        let here = now();
        if (here.tv_sec - start.tv_sec) * 1_000_000_000 + here.tv_nsec - start.tv_nsec >= nanos {
            return;
        }
    }
}

impl Drop for SharedMutexGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: held by this thread: `SharedMutexGuard` is made by a lock, and not sent elsewhere
        // (it borrows a `!Sync` cell).
        unsafe {
            libc::pthread_mutex_unlock(self.0.0.get());
        }
    }
}
