//! The machine's own clocks. Everything else is given a [`Clock`] and never asks the system.

use docstokg_policy::time::{BootInstant, Clock, Timestamp};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// `CLOCK_BOOTTIME` (counts suspend, knows no steps) and `CLOCK_REALTIME`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[cfg(target_os = "linux")]
const BOOT: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const BOOT: ClockId = ClockId::Monotonic;

impl Clock for SystemClock {
    #[inline]
    fn boot(&self) -> BootInstant {
        // The time since boot is never negative.
        let time = clock_gettime(BOOT);
        BootInstant::from_micros(time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_nsec.unsigned_abs() / 1_000)
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(micros(clock_gettime(ClockId::Realtime)))
    }
}

fn micros(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1_000)
}
