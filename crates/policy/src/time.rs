//! Instants, and the trait by which all code reads the time.
//!
//! The two clocks must never be mixed:
//!
//! - [`BootInstant`] paces requests and times blocks. All processes of a machine share this clock,
//!   and steps of the wall clock do not affect it.
//! - [`Timestamp`] is wall time, for HTTP dates and for display.
//!
//! Both count whole microseconds, so that a shared store can keep them as integers.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant on the boot clock, in microseconds since some time before the machine started.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct BootInstant(u64);

impl BootInstant {
    /// The start of the clock, before every other instant.
    pub const ZERO: Self = Self(0);
    /// The end of the clock: a deadline that never expires.
    pub const FAR: Self = Self(u64::MAX);

    /// Creates an instant from microseconds.
    #[inline]
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Returns the microseconds.
    #[inline]
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Returns the instant `micros` microseconds later, saturating.
    #[inline]
    #[must_use]
    pub const fn plus_micros(self, micros: u64) -> Self {
        Self(self.0.saturating_add(micros))
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for BootInstant {
    type Output = Self;

    fn add(self, length: Duration) -> Self {
        Self(self.0.saturating_add(micros(length)))
    }
}

impl AddAssign<Duration> for BootInstant {
    fn add_assign(&mut self, length: Duration) {
        *self = *self + length;
    }
}

impl Sub<Duration> for BootInstant {
    type Output = Self;

    fn sub(self, length: Duration) -> Self {
        Self(self.0.saturating_sub(micros(length)))
    }
}

/// A time on the wall clock, in microseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The beginning of 1970.
    pub const EPOCH: Self = Self(0);

    /// Creates a timestamp from microseconds since 1970.
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Returns the microseconds since 1970.
    #[must_use]
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Returns the seconds since 1970.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "microseconds of this century fit"
    )]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1_000_000.0
    }

    /// Creates a timestamp from seconds since 1970, rounded to whole microseconds. The result of
    /// [`Timestamp::as_secs_f64`] for any instant of this century is converted back exactly.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the conversion saturates, and not-a-number becomes the epoch"
    )]
    pub fn from_secs_f64(seconds: f64) -> Self {
        Self((seconds * 1_000_000.0).round() as i64)
    }

    /// Returns the beginning of a day in UTC; `None` if the proleptic Gregorian calendar has no
    /// such day in the years 0 to 9999.
    #[must_use]
    pub fn from_date(year: i64, month: i64, day: i64) -> Option<Self> {
        if !(0..=9_999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return None;
        }
        let days = days_since_epoch(year, month, day);
        // For a day that its month does not have, the number of days is that of a day in the next
        // month, so the reverse conversion differs.
        (civil(days) == (year, month, day)).then(|| Self(days * DAY_MICROS))
    }

    /// Returns the time since `earlier`, or zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        let micros = self.0.saturating_sub(earlier.0);
        Duration::from_micros(if micros > 0 { micros.unsigned_abs() } else { 0 })
    }

    /// Returns the signed distance to `other` in microseconds: positive if `self` is later.
    #[must_use]
    pub const fn micros_after(self, other: Self) -> i64 {
        self.0.saturating_sub(other.0)
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, length: Duration) -> Self {
        Self(self.0.saturating_add_unsigned(micros(length)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, length: Duration) -> Self {
        Self(self.0.saturating_sub_unsigned(micros(length)))
    }
}

impl fmt::Display for Timestamp {
    /// Writes RFC 3339 in UTC with milliseconds: `2026-11-15T08:30:00.250Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.0.div_euclid(DAY_MICROS);
        let within = self.0.rem_euclid(DAY_MICROS);
        let (year, month, day) = civil(days);
        let (seconds, millis) = (within / 1_000_000, within % 1_000_000 / 1_000);
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
        )
    }
}

const DAY_MICROS: i64 = 86_400_000_000;

/// Converts year, month and day into days since 1970-01-01: the reverse of [`civil`].
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    // In this calculation, years begin in March, so that the leap day is the last day of a year.
    let year_of_march = if month > 2 { year } else { year - 1 };
    let month_of_march = (month + 9) % 12;
    let leap_days =
        year_of_march.div_euclid(4) - year_of_march.div_euclid(100) + year_of_march.div_euclid(400);
    let days = 365 * year_of_march + leap_days + (153 * month_of_march + 2) / 5 + day - 1;
    // Subtracts the days from the first of March of the year 0 to the first of January 1970.
    days - 719_468
}

/// Converts days since 1970-01-01 into year, month and day of the proleptic Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Returns the whole microseconds of a duration, saturating.
#[must_use]
pub fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

/// The only source of time for decisions, stores and the hub.
pub trait Clock: Send + Sync {
    /// Returns the instant on the boot clock, which never goes back.
    fn boot(&self) -> BootInstant;
    /// Returns the time on the wall clock, which an operator may step.
    fn wall(&self) -> Timestamp;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_the_calendar_is_read_back() {
        let first = Timestamp::from_date(0, 1, 1).expect("a day").as_micros() / DAY_MICROS;
        let last = Timestamp::from_date(9_999, 12, 31).expect("a day");
        for days in (first..).take_while(|days| days * DAY_MICROS <= last.as_micros()) {
            let (year, month, day) = civil(days);
            let read = Timestamp::from_date(year, month, day);
            assert_eq!(read, Some(Timestamp(days * DAY_MICROS)), "{days}");
        }
        for (year, month, day) in [(2025, 2, 29), (2026, 4, 31), (2026, 13, 1), (2026, 1, 0)] {
            assert_eq!(Timestamp::from_date(year, month, day), None);
        }
    }

    #[test]
    fn timestamps_print_as_rfc_3339() {
        assert_eq!(
            Timestamp::from_micros(0).to_string(),
            "1970-01-01T00:00:00.000Z"
        );
        assert_eq!(
            Timestamp::from_micros(951_782_400_250_000).to_string(),
            "2000-02-29T00:00:00.250Z"
        );
        assert_eq!(
            Timestamp::from_micros(-1_000).to_string(),
            "1969-12-31T23:59:59.999Z"
        );
    }

    #[test]
    fn seconds_are_read_back_to_the_microsecond() {
        for micros in [0, 1, 999_999, 1_763_280_000_123_457, 4_102_444_799_999_999] {
            let at = Timestamp::from_micros(micros);
            assert_eq!(Timestamp::from_secs_f64(at.as_secs_f64()), at);
        }
        assert_eq!(Timestamp::from_secs_f64(f64::NAN), Timestamp::EPOCH);
        let (early, late) = (Timestamp::from_micros(5), Timestamp::from_micros(9));
        assert_eq!(late.since(early), Duration::from_micros(4));
        assert_eq!(early.since(late), Duration::ZERO);
    }

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(BootInstant::FAR + Duration::from_secs(1), BootInstant::FAR);
        assert_eq!(
            BootInstant::ZERO - Duration::from_secs(1),
            BootInstant::ZERO
        );
        assert_eq!(BootInstant::ZERO.since(BootInstant::FAR), Duration::ZERO);
        assert_eq!(BootInstant::ZERO + Duration::MAX, BootInstant::FAR);
    }
}
