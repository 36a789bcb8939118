//! A limit of processor time for reading a page. The limit is not clock time, so that a busy
//! machine loses no pages.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// An instant in the processor time of this thread.
#[derive(Clone, Copy)]
pub(super) struct ProcessorDeadline(Duration);

impl ProcessorDeadline {
    /// Returns the instant at which this thread has used `limit` more processor time.
    pub(super) fn after(limit: Duration) -> Self {
        Self(spent() + limit)
    }

    pub(super) fn is_over(self) -> bool {
        spent() >= self.0
    }
}

/// Returns the processor time that this thread has used.
fn spent() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
