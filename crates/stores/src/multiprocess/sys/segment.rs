//! A mapped part of a file.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use super::mutex::{MUTEX_BYTES, MutexPlace, SharedMutex, check};
use super::truncation;

/// A mapped part of a file.
pub(crate) struct Segment {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: a segment is a range of addresses; its memory is accessed by atomics, or by copies under
// a lock.
unsafe impl Send for Segment {}

// SAFETY: as above.
unsafe impl Sync for Segment {}

impl Segment {
    /// Allocates `length` bytes of the file from `offset` on, and maps them.
    pub(crate) fn map(file: &File, offset: u64, length: usize) -> io::Result<Self> {
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
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(
            offset.is_multiple_of(8) && offset + 8 <= self.length,
            "a word is within its segment"
        );
        // SAFETY: in bounds and aligned (the mapping starts at a page); atomics may be shared, also
        // with other processes.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// Copies bytes out. The caller holds the lock under which they are written.
    pub(in super::super) fn read(&self, offset: usize, length: usize) -> Vec<u8> {
        assert!(
            offset
                .checked_add(length)
                .is_some_and(|end| end <= self.length),
            "bytes are within their segment"
        );
        let mut bytes = Vec::with_capacity(length);
        // SAFETY: the source is in bounds; the target has capacity for `length` bytes, which are
        // set before its length is.
        unsafe {
            ptr::copy_nonoverlapping(self.start.as_ptr().add(offset), bytes.as_mut_ptr(), length);
            bytes.set_len(length);
        }
        bytes
    }

    /// Copies bytes in. The caller holds the lock under which they are read.
    #[inline]
    pub(in super::super) fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(
            offset
                .checked_add(bytes.len())
                .is_some_and(|end| end <= self.length),
            "bytes are within their segment"
        );
        // SAFETY: the target is in bounds, and the source is memory of ours, which a fresh mapping
        // does not overlap.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(offset), bytes.len());
        }
    }

    /// Writes whole words at `offset`, which is a multiple of eight. For a few words this is faster
    /// than a copy.
    #[inline]
    pub(in super::super) fn write_words(&self, offset: usize, bytes: &[u8]) {
        for (index, word) in bytes.chunks_exact(8).enumerate() {
            let word = word.try_into().map_or(0, u64::from_ne_bytes);
            self.word(offset + 8 * index).store(word, Ordering::Relaxed);
        }
    }

    /// Returns the mutex of the structure at `base`, which [`Segment::make_mutex`] has made.
    #[inline]
    pub(in super::super) fn mutex(&self, base: usize, place: MutexPlace) -> SharedMutex<'_> {
        let offset = base + place.lock;
        assert!(
            offset.is_multiple_of(8) && offset + MUTEX_BYTES <= self.length,
            "a mutex is within its segment"
        );
        // SAFETY: in bounds and aligned to eight, as the C library's mutex is; it is only ever used
        // through a shared reference, and the C library expects several users.
        let lock = unsafe { &*self.start.as_ptr().add(offset).cast() };
        SharedMutex {
            lock,
            yield_until: self.word(base + place.yield_until),
        }
    }

    /// Makes the mutex of the structure at `base`. No mutex may be in use there yet.
    pub(in super::super) fn make_mutex(&self, base: usize, place: MutexPlace) -> io::Result<()> {
        let mutex = self.mutex(base, place);
        mutex.forget_waiters();
        let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        // SAFETY: the attributes are initialised by the first call before the others use them; the
        // mutex is at its final place and, as the caller guarantees, unused.
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
            check(libc::pthread_mutex_init(
                mutex.lock.get(),
                attributes.as_ptr(),
            ))?;
            check(libc::pthread_mutexattr_destroy(attributes.as_mut_ptr()))
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        truncation::remove(self.start.as_ptr() as usize);
        // SAFETY: this is the whole mapping; all borrows of the segment have ended.
        unsafe {
            libc::munmap(self.start.as_ptr().cast(), self.length);
        }
    }
}
