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
    fn boot(&self) -> BootInstant {
        BootInstant::from_micros(u64::try_from(micros(clock_gettime(BOOT))).unwrap_or(0))
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(micros(clock_gettime(ClockId::Realtime)))
    }
}

fn micros(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1_000)
}
