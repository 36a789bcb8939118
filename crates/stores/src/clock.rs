//! The clocks of the machine. All other code uses a [`Clock`] instead of the system.

use std::sync::OnceLock;

use docstokg_policy::time::{BootInstant, Clock, Timestamp};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The clocks of the system: `CLOCK_BOOTTIME` (includes suspend, has no steps) and
/// `CLOCK_REALTIME`.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[cfg(target_os = "linux")]
const BOOT: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const BOOT: ClockId = ClockId::Monotonic;

/// The value of the clock at boot, in microseconds. The permits of an earlier boot have smaller
/// values.
const BOOT_OFFSET_MICROS: u64 = 40 * 86_400 * 1_000_000;

/// The time by which this process's boot clock is ahead of the machine's, in microseconds. The
/// value differs from zero in a time namespace, such as that of a container. Processes inside and
/// outside of a namespace that share state use the machine's clock.
static CLOCK_OFFSET: OnceLock<i64> = OnceLock::new();

fn own_offset() -> i64 {
    std::fs::read_to_string("/proc/self/timens_offsets")
        .ok()
        .and_then(|text| read_offset(&text))
        .unwrap_or(0)
}

/// Parses the line `boottime SECONDS NANOSECONDS`.
fn read_offset(text: &str) -> Option<i64> {
    let mut words = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("boottime"))?
        .split_ascii_whitespace();
    let (seconds, nanos): (i64, i64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    seconds.checked_mul(1_000_000)?.checked_add(nanos / 1_000)
}

impl Clock for SystemClock {
    #[inline]
    fn boot(&self) -> BootInstant {
        // The time since boot is never negative.
        let time = clock_gettime(BOOT);
        let here = BOOT_OFFSET_MICROS
            + time.tv_sec.unsigned_abs() * 1_000_000
            + time.tv_nsec.unsigned_abs() / 1_000;
        BootInstant::from_micros(here.saturating_add_signed(-*CLOCK_OFFSET.get_or_init(own_offset)))
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(micros(clock_gettime(ClockId::Realtime)))
    }
}

fn micros(time: Timespec) -> i64 {
    time.tv_sec
        .saturating_mul(1_000_000)
        .saturating_add(time.tv_nsec / 1_000)
}

/// Returns a conversion of instants of an earlier boot to the clock of this boot, by wall time.
///
/// No converted instant is further ahead of the present than it was at the time of the anchor, even
/// if the wall clock was changed. Instants before the start of the clock become its start.
pub(crate) fn shift(
    anchor: (u64, i64),
    here: (BootInstant, i64),
) -> impl Fn(BootInstant) -> BootInstant {
    move |instant| {
        let ahead = i128::from(instant.as_micros()) - i128::from(anchor.0);
        let passed = i128::from(here.1) - i128::from(anchor.1);
        let left = (ahead - passed.max(0)).min(ahead.max(0));
        let converted = i128::from(here.0.as_micros()) + left;
        BootInstant::from_micros(u64::try_from(converted.max(0)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        assert_eq!(
            read_offset("monotonic           0         0\nboottime       100000  500000000\n"),
            Some(100_000_500_000)
        );
        assert_eq!(
            read_offset("monotonic 0 0\nboottime -5 0\n"),
            Some(-5_000_000)
        );
        assert_eq!(read_offset(""), None);
    }
}
