//! A mutex in memory that several processes share.

use std::cell::UnsafeCell;
use std::io;
use std::mem::size_of;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub(super) fn check(failed: libc::c_int) -> io::Result<()> {
    if failed == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(failed))
    }
}

/// A mutex in shared memory. If its holder dies, the next process recovers it.
///
/// The lock of the C library is not fair: a process that uses it without pause takes it again
/// before any other process has woken. Therefore a process that has waited for a while sets
/// `yield_until`, and the others let it go first. A lock with priority inheritance would be passed
/// on, but identifies its holder by a number that means another thread in another container.
#[derive(Clone, Copy)]
pub(in super::super) struct SharedMutex<'a> {
    pub(super) lock: &'a UnsafeCell<libc::pthread_mutex_t>,
    /// The time until which others let a long waiting process go first, in microseconds of the
    /// monotonic clock.
    pub(super) yield_until: &'a AtomicU64,
}

/// The offsets of the parts of a mutex in a structure.
#[derive(Clone, Copy)]
pub(in super::super) struct MutexPlace {
    pub(in super::super) lock: usize,
    pub(in super::super) yield_until: usize,
}

/// The size of the lock of a mutex in bytes.
pub(in super::super) const MUTEX_BYTES: usize =
    size_of::<libc::pthread_mutex_t>().next_multiple_of(8);
/// The number of spins before a waiter sleeps.
const SPIN_ATTEMPTS: u32 = 8;

/// The length of a spin between two attempts. Meanwhile the holder runs many operations with the
/// memory in its cache. If two processes alternate, each operation moves the memory between caches.
/// Sleep and wake-up would take longer than a spin.
const SPIN_INTERVAL: Duration = Duration::from_micros(10);

/// The time after which a waiter requests that others let it go first.
const LONG_WAIT: Duration = Duration::from_millis(10);
/// The time for which others let a waiter go first; it is limited because the waiter may have died.
const YIELD_DURATION: Duration = Duration::from_millis(50);
/// The time between two checks by processes that let others go first.
const YIELD_CHECK: Duration = Duration::from_micros(200);

/// Proof that a [`SharedMutex`] is locked.
pub(in super::super) struct SharedMutexGuard<'a>(SharedMutex<'a>);

impl<'a> SharedMutex<'a> {
    /// Takes the mutex, with a wait of at most `timeout` for its holder.
    #[inline]
    pub(in super::super) fn lock(self, timeout: Duration) -> io::Result<SharedMutexGuard<'a>> {
        if self.yield_until.load(Relaxed) != 0 && !timeout.is_zero() {
            self.let_others_go_first();
        }
        match self.try_lock()? {
            Some(guard) => Ok(guard),
            None => self.wait(timeout),
        }
    }

    /// Clears the request of a waiter to go first.
    pub(super) fn forget_waiters(self) {
        self.yield_until.store(0, Relaxed);
    }

    /// Takes the mutex if it is free.
    #[inline]
    fn try_lock(self) -> io::Result<Option<SharedMutexGuard<'a>>> {
        // SAFETY: the mutex was made before its offset was published, and is never destroyed.
        match unsafe { libc::pthread_mutex_trylock(self.lock.get()) } {
            0 => Ok(Some(SharedMutexGuard(self))),
            libc::EBUSY => Ok(None),
            libc::EOWNERDEAD => self.recover().map(Some),
            failed => Err(io::Error::from_raw_os_error(failed)),
        }
    }

    /// Waits while another process is to go first, for a short time.
    #[cold]
    #[expect(
        clippy::disallowed_methods,
        reason = "the lock is held for microseconds, by processes that run in real time"
    )]
    fn let_others_go_first(self) {
        let start = monotonic();
        loop {
            let now = monotonic();
            let until = Duration::from_micros(self.yield_until.load(Relaxed));
            // A time far ahead was written on another clock; a time in the past, by a process that
            // has ended.
            if until <= now || until > now + YIELD_DURATION {
                return self.forget_waiters();
            }
            if now >= start + LONG_WAIT {
                return;
            }
            std::thread::sleep(YIELD_CHECK);
        }
    }

    /// Waits for the holder: spins first, then sleeps.
    #[cold]
    fn wait(self, timeout: Duration) -> io::Result<SharedMutexGuard<'a>> {
        for _ in 0..SPIN_ATTEMPTS {
            spin_for(SPIN_INTERVAL);
            if let Some(guard) = self.try_lock()? {
                return Ok(guard);
            }
        }
        let deadline = monotonic() + timeout;
        let mut has_asked = false;
        loop {
            let left = deadline.saturating_sub(monotonic());
            if let Some(guard) = self.sleep(left.min(LONG_WAIT))? {
                if has_asked {
                    self.forget_waiters();
                }
                return Ok(guard);
            }
            let now = monotonic();
            if now >= deadline {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "another process holds its lock and does not go on",
                ));
            }
            let until = u64::try_from((now + YIELD_DURATION).as_micros()).unwrap_or(0);
            self.yield_until.store(until, Relaxed);
            has_asked = true;
        }
    }

    /// Sleeps until the mutex is taken or the time has passed.
    fn sleep(self, timeout: Duration) -> io::Result<Option<SharedMutexGuard<'a>>> {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let nanos = now.tv_nsec.unsigned_abs() + u64::from(timeout.subsec_nanos());
        let seconds = timeout.as_secs() + nanos / 1_000_000_000;
        let until = libc::timespec {
            tv_sec: now.tv_sec + libc::time_t::try_from(seconds).unwrap_or(1),
            tv_nsec: libc::c_long::try_from(nanos % 1_000_000_000).unwrap_or(0),
        };
        // SAFETY: as in `try_lock`; the timespec is well-formed.
        match unsafe { libc::pthread_mutex_timedlock(self.lock.get(), &raw const until) } {
            0 => Ok(Some(SharedMutexGuard(self))),
            libc::EOWNERDEAD => self.recover().map(Some),
            libc::ETIMEDOUT => Ok(None),
            failed => Err(io::Error::from_raw_os_error(failed)),
        }
    }

    /// Recovers the mutex of a holder that died. The protected data is complete up to the last
    /// commit, because one write makes a record active.
    #[cold]
    fn recover(self) -> io::Result<SharedMutexGuard<'a>> {
        // SAFETY: this thread owns the mutex, in the state that this call ends.
        check(unsafe { libc::pthread_mutex_consistent(self.lock.get()) })?;
        Ok(SharedMutexGuard(self))
    }
}

/// Returns the time of the clock that all processes share.
fn monotonic() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::try_from(now).unwrap_or_default()
}

fn spin_for(length: Duration) {
    let start = monotonic();
    loop {
        (0..16).for_each(|_| std::hint::spin_loop());
        if monotonic() >= start + length {
            return;
        }
    }
}

impl Drop for SharedMutexGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this thread owns the lock: a `SharedMutexGuard` is made by a lock, and not sent
        // elsewhere (it borrows a `!Sync` cell).
        unsafe {
            libc::pthread_mutex_unlock(self.0.lock.get());
        }
    }
}
