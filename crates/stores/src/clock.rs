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

/// The room before the start of the machine, in microseconds: what an earlier start has granted lies there.
const BEFORE: u64 = 40 * 86_400 * 1_000_000;

impl Clock for SystemClock {
    #[inline]
    fn boot(&self) -> BootInstant {
        // The time since boot is never negative.
        let time = clock_gettime(BOOT);
        BootInstant::from_micros(BEFORE + time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_nsec.unsigned_abs() / 1_000)
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(micros(clock_gettime(ClockId::Realtime)))
    }
}

fn micros(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1_000)
}

/// Returns how instants of an earlier start of the machine are told on the clock of this one, by way of wall time.
///
/// Nothing lies further ahead than it did when the anchor was written, however the wall clock was set meanwhile; what
/// lies before all that the clock can tell counts as its beginning.
pub(crate) fn shift(anchor: (u64, i64), here: (BootInstant, i64)) -> impl Fn(BootInstant) -> BootInstant {
    move |instant| {
        let ahead = i128::from(instant.as_micros()) - i128::from(anchor.0);
        let passed = i128::from(here.1) - i128::from(anchor.1);
        let left = (ahead - passed.max(0)).min(ahead.max(0));
        let told = i128::from(here.0.as_micros()) + left;
        BootInstant::from_micros(u64::try_from(told.max(0)).unwrap_or(u64::MAX))
    }
}
