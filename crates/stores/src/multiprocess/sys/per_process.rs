//! Values that a child process does not share with its parent.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The number of forks between the first process and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

fn count_forks() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler does nothing but add to an atomic, which is allowed after a fork.
        unsafe {
            libc::pthread_atfork(None, None, Some(forked));
        }
    });
}

/// A value that a child process must not share with its parent: the child creates a new one at its
/// first use.
pub struct PerProcess<T> {
    value: AtomicPtr<T>,
    forks: AtomicU32,
    make: Box<dyn Fn() -> T + Send + Sync>,
}

impl<T: Send + Sync> PerProcess<T> {
    /// Creates the value of this process; a child calls `make`.
    pub fn new(value: T, make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        count_forks();
        let value = AtomicPtr::new(Box::into_raw(Box::new(value)));
        Self {
            value,
            forks: AtomicU32::new(FORKS.load(Ordering::Relaxed)),
            make: Box::new(make),
        }
    }

    /// Returns the value of this process.
    #[inline]
    pub fn get(&self) -> &T {
        let forks = FORKS.load(Ordering::Relaxed);
        if self.forks.load(Ordering::Acquire) != forks {
            self.renew(forks);
        }
        // SAFETY: the pointer comes from a box that is freed only when `self` is dropped, or never
        // (see `renew`).
        unsafe { &*self.value.load(Ordering::Acquire) }
    }

    #[cold]
    fn renew(&self, forks: u32) {
        let old = self.value.load(Ordering::Acquire);
        let fresh = Box::into_raw(Box::new((self.make)()));
        if self
            .value
            .compare_exchange(old, fresh, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            // SAFETY: another thread of the child was first; no other thread has seen this pointer.
            drop(unsafe { Box::from_raw(fresh) });
        }
        // The parent's value is not dropped: its locks may belong to threads that do not exist in
        // this process.
        self.forks.store(forks, Ordering::Release);
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        if self.forks.load(Ordering::Acquire) == FORKS.load(Ordering::Relaxed) {
            // SAFETY: made by a box in this process, and all borrows of `self` have ended.
            drop(unsafe { Box::from_raw(self.value.load(Ordering::Acquire)) });
        }
    }
}
