//! The one module with unsafe code: memory that several processes share, and locks in it.
//!
//! What is unsafe here, and why it holds:
//! - A [`Segment`] maps a part of a file whose blocks are allocated (no SIGBUS when the disk is
//!   full), never shrinks and is never unmapped while the store lives, so that pointers into it
//!   stay good.
//! - Other processes write to the same memory. Everything that is read without a lock is an atomic;
//!   the rest is plain bytes, copied in and out under a [`SharedMutex`], and checked before it
//!   means anything.
//! - A [`SharedMutex`] is a robust, process-shared mutex of the C library at a fixed place in the
//!   memory. It is made once, before the file has its name, and never moved or destroyed.
//! - A [`Brief`] lets one thread at a time reach its value.
//! - A file that somebody cuts short all the same is survived by programs that ask for it: see
//!   [`truncation`].

#![allow(
    unsafe_code,
    reason = "mapped memory and process-shared locks have no safe interface; each block says why it is right"
)]

use std::cell::UnsafeCell;
use std::fs::File;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

pub(super) mod truncation;

/// A mapped part of a file.
pub(super) struct Segment {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: a segment is a range of addresses; what is behind them is reached by atomics, or by
// copies under a lock.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// Allocates `length` bytes of the file from `offset` on, and maps them.
    pub(super) fn map(file: &File, offset: u64, length: usize) -> io::Result<Self> {
        let too_far = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let (from, bytes) = (
            libc::off_t::try_from(offset).map_err(too_far)?,
            libc::off_t::try_from(length).map_err(too_far)?,
        );
        // SAFETY: the descriptor is open for as long as `file` is borrowed; the call touches no
        // memory of ours.
        let failed = unsafe { libc::posix_fallocate(file.as_raw_fd(), from, bytes) };
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(failed));
        }
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing of ours.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                from,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast())
            .ok_or_else(|| io::Error::from(io::ErrorKind::AddrNotAvailable))?;
        truncation::add(start.as_ptr() as usize, length);
        Ok(Self { start, length })
    }

    /// Returns the word at `offset`, which is a multiple of eight within the segment.
    #[inline]
    pub(super) fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(
            offset.is_multiple_of(8) && offset + 8 <= self.length,
            "a word lies within its segment"
        );
        // SAFETY: in bounds and aligned (the mapping starts at a page); atomics may be shared, also
        // with other processes.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// Copies bytes out. The caller holds the lock under which they are written.
    pub(super) fn read(&self, offset: usize, length: usize) -> Vec<u8> {
        assert!(
            offset
                .checked_add(length)
                .is_some_and(|end| end <= self.length),
            "bytes lie within their segment"
        );
        let mut bytes = Vec::with_capacity(length);
        // SAFETY: the source is in bounds; the target has room for `length` bytes, which are set
        // before its length is.
        unsafe {
            ptr::copy_nonoverlapping(self.start.as_ptr().add(offset), bytes.as_mut_ptr(), length);
            bytes.set_len(length);
        }
        bytes
    }

    /// Copies bytes in. The caller holds the lock under which they are read.
    #[inline]
    pub(super) fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(
            offset
                .checked_add(bytes.len())
                .is_some_and(|end| end <= self.length),
            "bytes lie within their segment"
        );
        // SAFETY: the target is in bounds, and the source is memory of ours, which a fresh mapping
        // does not overlap.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(offset), bytes.len())
        }
    }

    /// Writes whole words at `offset`, which is a multiple of eight, one by one: for a few of them
    /// that is faster than a copy.
    #[inline]
    pub(super) fn write_words(&self, offset: usize, bytes: &[u8]) {
        for (place, word) in bytes.chunks_exact(8).enumerate() {
            let word = word.try_into().map_or(0, u64::from_ne_bytes);
            self.word(offset + 8 * place).store(word, Ordering::Relaxed);
        }
    }

    /// Returns the mutex at `offset`, which [`Segment::make_mutex`] has made.
    #[inline]
    pub(super) fn mutex(&self, offset: usize) -> &SharedMutex {
        assert!(
            offset.is_multiple_of(8) && offset + size_of::<SharedMutex>() <= self.length,
            "a mutex lies within its segment"
        );
        // SAFETY: in bounds and aligned to eight, as the C library's mutex is; it is only ever used
        // through a shared reference, and the C library expects several users.
        #[expect(
            clippy::cast_ptr_alignment,
            reason = "the mapping starts at a page, and the offset is a multiple of eight"
        )]
        unsafe {
            &*self.start.as_ptr().add(offset).cast::<SharedMutex>()
        }
    }

    /// Makes a mutex at `offset`, where nobody uses one yet.
    pub(super) fn make_mutex(&self, offset: usize) -> io::Result<()> {
        let mutex = self.mutex(offset);
        let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: the attributes are initialised by the first call before the others use them; the
        // mutex is at its final place and, as the caller says, unused.
        unsafe {
            check(libc::pthread_mutexattr_init(attributes.as_mut_ptr()))?;
            check(libc::pthread_mutexattr_setpshared(
                attributes.as_mut_ptr(),
                libc::PTHREAD_PROCESS_SHARED,
            ))?;
            check(libc::pthread_mutexattr_setrobust(
                attributes.as_mut_ptr(),
                libc::PTHREAD_MUTEX_ROBUST,
            ))?;
            check(libc::pthread_mutex_init(mutex.0.get(), attributes.as_ptr()))?;
            check(libc::pthread_mutexattr_destroy(attributes.as_mut_ptr()))
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        truncation::remove(self.start.as_ptr() as usize);
        // SAFETY: this is the whole mapping; whoever borrowed from the segment is gone by now.
        unsafe {
            libc::munmap(self.start.as_ptr().cast(), self.length);
        }
    }
}

fn check(failed: libc::c_int) -> io::Result<()> {
    if failed == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(failed))
    }
}

/// A mutex in shared memory. If its holder dies the next one gets it, and is told.
#[repr(transparent)]
pub(super) struct SharedMutex(UnsafeCell<libc::pthread_mutex_t>);

/// The bytes that a mutex takes.
pub(super) const MUTEX: usize = size_of::<libc::pthread_mutex_t>().next_multiple_of(8);

/// How often a mutex is tried before its holder is waited for asleep.
const TRIES: u32 = 8;
/// The time between two tries, in nanoseconds. Meanwhile the holder does many steps on memory that
/// is near to it, where two who take turns would fetch it from each other for every step; to sleep
/// and to be woken takes longer.
const BETWEEN: i64 = 10_000;

/// Proof that a mutex is held.
pub(super) struct Held<'a>(&'a SharedMutex);

impl SharedMutex {
    /// Takes the mutex, waiting no longer than `patience` for a holder that lives.
    #[inline]
    pub(super) fn lock(&self, patience: Duration) -> io::Result<Held<'_>> {
        match self.attempt()? {
            Some(held) => Ok(held),
            None => self.wait(patience),
        }
    }

    /// Takes the mutex if nobody holds it.
    #[inline]
    fn attempt(&self) -> io::Result<Option<Held<'_>>> {
        // SAFETY: the mutex was made before its place was handed out, and is never destroyed.
        match unsafe { libc::pthread_mutex_trylock(self.0.get()) } {
            0 => Ok(Some(Held(self))),
            libc::EBUSY => Ok(None),
            libc::EOWNERDEAD => self.inherit().map(Some),
            failed => Err(io::Error::from_raw_os_error(failed)),
        }
    }

    /// Waits for the holder: for a while awake, then asleep.
    #[cold]
    fn wait(&self, patience: Duration) -> io::Result<Held<'_>> {
        for _ in 0..TRIES {
            stay_awake(BETWEEN);
            if let Some(held) = self.attempt()? {
                return Ok(held);
            }
        }
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let nanos = now.tv_nsec.unsigned_abs() + u64::from(patience.subsec_nanos());
        let seconds = patience.as_secs() + nanos / 1_000_000_000;
        let until = libc::timespec {
            tv_sec: now.tv_sec + libc::time_t::try_from(seconds).unwrap_or(1),
            tv_nsec: libc::c_long::try_from(nanos % 1_000_000_000).unwrap_or(0),
        };
        // SAFETY: as in `lock`; the timespec is well-formed.
        match unsafe { libc::pthread_mutex_timedlock(self.0.get(), &raw const until) } {
            0 => Ok(Held(self)),
            libc::EOWNERDEAD => self.inherit(),
            libc::ETIMEDOUT => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "another process holds its lock and does not go on",
            )),
            failed => Err(io::Error::from_raw_os_error(failed)),
        }
    }

    /// The holder died. What it left is whole up to its last commit: records are flipped in one
    /// write.
    #[cold]
    fn inherit(&self) -> io::Result<Held<'_>> {
        // SAFETY: the mutex is held by this thread, in the state that this call ends.
        check(unsafe { libc::pthread_mutex_consistent(self.0.get()) })?;
        Ok(Held(self))
    }
}

/// Does nothing for so many nanoseconds.
fn stay_awake(nanos: i64) {
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

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: held by this thread: `Held` is made by a lock, and not sent elsewhere (it borrows
        // a `!Sync` cell).
        unsafe {
            libc::pthread_mutex_unlock(self.0.0.get());
        }
    }
}

/// A lock among the threads of this process for what is held for a moment: half the price of one
/// that can sleep.
pub(super) struct Brief<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through a `Taken`, of which there is one at a time; so it need
// not be `Sync` itself.
unsafe impl<T: Send> Sync for Brief<T> {}

/// Proof that a [`Brief`] is taken.
pub(super) struct Taken<'a, T>(&'a Brief<T>);

impl<T> Brief<T> {
    pub(super) const fn new(value: T) -> Self {
        Self {
            taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    #[inline]
    pub(super) fn take(&self) -> Taken<'_, T> {
        if self.taken.swap(true, Ordering::Acquire) {
            self.wait();
        }
        Taken(self)
    }

    /// Who has it may be waiting for another process: others get the processor meanwhile.
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

impl<T> std::ops::Deref for Taken<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: whoever has the one `Taken` is alone with the value.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> std::ops::DerefMut for Taken<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Taken<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}

/// Counts the forks between the first process and this one.
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

/// Something that a child process must not share with its parent: it gets a fresh one at its first
/// use.
pub(crate) struct PerProcess<T> {
    value: AtomicPtr<T>,
    forks: AtomicU32,
    make: Box<dyn Fn() -> T + Send + Sync>,
}

impl<T: Send + Sync> PerProcess<T> {
    /// Starts with `value`; a child starts with what `make` gives it.
    pub(crate) fn new(value: T, make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        count_forks();
        let value = AtomicPtr::new(Box::into_raw(Box::new(value)));
        Self {
            value,
            forks: AtomicU32::new(FORKS.load(Ordering::Relaxed)),
            make: Box::new(make),
        }
    }

    /// Returns this process's own.
    #[inline]
    pub(crate) fn get(&self) -> &T {
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
            // SAFETY: another thread of the child was first; this one was seen by nobody else.
            drop(unsafe { Box::from_raw(fresh) });
        }
        // The parent's is left alone: its locks may be held by threads that do not exist here.
        self.forks.store(forks, Ordering::Release);
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        if self.forks.load(Ordering::Acquire) == FORKS.load(Ordering::Relaxed) {
            // SAFETY: made by a box in this process, and nobody borrows from `self` any more.
            drop(unsafe { Box::from_raw(self.value.load(Ordering::Acquire)) });
        }
    }
}
