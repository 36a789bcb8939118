//! A spin lock among the threads of this process.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// A spin lock among the threads of this process, for very short critical sections. The cost is
/// half that of a lock that can sleep.
pub(in super::super) struct SpinLock<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a `SpinLockGuard`, of which there is one at a time; so
// it need not be `Sync` itself.
unsafe impl<T: Send> Sync for SpinLock<T> {}

/// Proof that a [`SpinLock`] is taken.
pub(in super::super) struct SpinLockGuard<'a, T>(&'a SpinLock<T>);

impl<T> SpinLock<T> {
    pub(in super::super) const fn new(value: T) -> Self {
        Self {
            taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    #[inline]
    pub(in super::super) fn lock(&self) -> SpinLockGuard<'_, T> {
        if self.taken.swap(true, Ordering::Acquire) {
            self.wait();
        }
        SpinLockGuard(self)
    }

    /// Waits for the holder, which may wait for another process. Other threads get the processor
    /// meanwhile.
    #[cold]
    fn wait(&self) {
        loop {
            (0..64).for_each(|_| std::hint::spin_loop());
            if !self.taken.load(Ordering::Relaxed) && !self.taken.swap(true, Ordering::Acquire) {
                return;
            }
            std::thread::yield_now();
        }
    }
}

impl<T> std::ops::Deref for SpinLockGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: there is one `SpinLockGuard` at a time, and no other access to the value.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> std::ops::DerefMut for SpinLockGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for SpinLockGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}
