//! The only module with unsafe code: memory that several processes share, and locks in it.
//!
//! The unsafe parts, and the reasons why they are sound:
//! - A [`Segment`] maps a part of a file whose blocks are allocated (no SIGBUS when the disk is
//!   full). The mapping never shrinks and is never unmapped while the store exists, so that
//!   pointers into it stay valid.
//! - Other processes write to the same memory. Every word that is read without a lock is an atomic.
//!   The rest is plain bytes, copied in and out under a [`SharedMutex`], and checked before use.
//! - A [`SharedMutex`] is a robust, process-shared mutex of the C library at a fixed address in the
//!   memory. The mutex is made once, before the file has its path, and never moved or destroyed.
//! - A [`SpinLock`] gives one thread at a time access to its value.
//! - Programs that install the handler of [`truncation`] also survive a truncated file.

#![allow(
    unsafe_code,
    reason = "mapped memory and process-shared locks have no safe interface; \
              each block says why it is sound"
)]

mod mutex;
mod per_process;
mod segment;
mod spin_lock;
pub(super) mod truncation;

#[cfg(doc)]
use mutex::SharedMutex;
pub(super) use mutex::{MUTEX_BYTES, MutexPlace, SharedMutexGuard};
pub use per_process::PerProcess;
pub(crate) use segment::Segment;
pub(super) use spin_lock::SpinLock;
