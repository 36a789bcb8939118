//! The reaction to a mapped file that is truncated while it is in use: the kernel raises SIGBUS at
//! the next access.
//!
//! A program that installs the handler continues. The handler maps a page of zeros at the fault and
//! sets a flag. The store checks the flag after every operation and reports the damage. A fault
//! outside the mappings ends the program as it would without the handler.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The number of mappings that the handler knows. Faults in other mappings end the program.
const MAX_TRACKED_MAPPINGS: usize = 4_096;

/// The mappings, as address and length; 0 for an unused entry.
static STARTS: [AtomicUsize; MAX_TRACKED_MAPPINGS] =
    [const { AtomicUsize::new(0) }; MAX_TRACKED_MAPPINGS];
static LENGTHS: [AtomicUsize; MAX_TRACKED_MAPPINGS] =
    [const { AtomicUsize::new(0) }; MAX_TRACKED_MAPPINGS];
static DAMAGED: AtomicBool = AtomicBool::new(false);

/// Returns whether a mapped file was truncated while it was in use.
#[inline]
pub(in super::super) fn was_seen() -> bool {
    DAMAGED.load(Ordering::Acquire)
}

/// Adds a mapping to those that the handler knows.
pub(super) fn add(start: usize, length: usize) {
    for (index, known) in STARTS.iter().enumerate() {
        if known
            .compare_exchange(0, start, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
        {
            LENGTHS[index].store(length, Ordering::Release);
            return;
        }
    }
}

/// Removes a mapping before it is unmapped.
pub(super) fn remove(start: usize) {
    if let Some(index) = STARTS
        .iter()
        .position(|known| known.load(Ordering::Acquire) == start)
    {
        LENGTHS[index].store(0, Ordering::Release);
        STARTS[index].store(0, Ordering::Release);
    }
}

/// Installs the handlers for a truncated mapped file and for a file that grows too large, for the
/// whole process.
///
/// # Errors
/// Returns an error if a handler cannot be installed.
pub(in super::super) fn survive() -> io::Result<()> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all zeros is a valid action; the handler has the signature that SA_SIGINFO requires,
    // and does only what a handler may do: atomics, and system calls.
    unsafe {
        let raw = action.as_mut_ptr();
        (*raw).sa_sigaction = on_fault
            as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void)
            as usize;
        (*raw).sa_flags = libc::SA_SIGINFO;
        libc::sigemptyset(&raw mut (*raw).sa_mask);
        if libc::sigaction(libc::SIGBUS, raw, ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        // A file that exceeds the limit of the process then fails the write (EFBIG), and does not
        // end the program.
        if libc::signal(libc::SIGXFSZ, libc::SIG_IGN) == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

extern "C" fn on_fault(signal: libc::c_int, about: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid record to a handler with SA_SIGINFO.
    let address = unsafe { (*about).si_addr() } as usize;
    // SAFETY: reads a constant of the system.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) })
        .unwrap_or(4_096)
        .max(1);
    for (start, length) in STARTS.iter().zip(&LENGTHS) {
        let (start, length) = (
            start.load(Ordering::Acquire),
            length.load(Ordering::Acquire),
        );
        if start == 0 || address < start || address >= start + length {
            continue;
        }
        DAMAGED.store(true, Ordering::Release);
        let fault_page = address / page * page;
        // SAFETY: the page is within a mapping of ours, which no other code uses, and replaces it.
        let zeros = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
            libc::mmap(
                ptr::with_exposed_provenance_mut(fault_page),
                page,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        if zeros != libc::MAP_FAILED {
            return;
        }
    }
    // SAFETY: restores the default action; the access is repeated and ends the program.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
    }
}
