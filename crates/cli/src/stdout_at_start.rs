//! Whether stdout was closed when the process started.
//!
//! Before `main` the runtime of Rust opens the null device in place of a closed stdout, so that
//! output would be lost without an error. This looks before the runtime does.

use std::sync::atomic::{AtomicBool, Ordering};

static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Returns whether stdout was closed when the process started.
pub(crate) fn was_closed() -> bool {
    WAS_CLOSED.load(Ordering::Relaxed)
}

/// Looks at stdout before `main`. Only what needs no runtime is allowed here: one system call and
/// one atomic store.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "code that runs before the runtime of Rust has no safe interface"
)]
mod before_main {
    use std::os::fd::BorrowedFd;
    use std::sync::atomic::Ordering;

    use rustix::io::{Errno, fcntl_getfd};

    // SAFETY: the loader calls the functions of this section once, before `main`, and this one has
    // the signature that it calls.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static LOOK_AT_STDOUT: extern "C" fn() = look_at_stdout;

    extern "C" fn look_at_stdout() {
        // SAFETY: the descriptor is borrowed for one call, which reports a closed one as an error.
        let stdout = unsafe { BorrowedFd::borrow_raw(1) };
        let is_closed = fcntl_getfd(stdout) == Err(Errno::BADF);
        super::WAS_CLOSED.store(is_closed, Ordering::Relaxed);
    }
}
