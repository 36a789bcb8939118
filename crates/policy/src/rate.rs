//! Rates as written in configuration, and the windows that they mean.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use words::{LimitBasis, limit_in_words, rates_in_words, window_in_words};

mod words;

/// A limit of at most `limit` permits in any interval of length `per`.
///
/// ```
/// use std::time::Duration;
/// use docstokg_policy::rate::Window;
///
/// let window: Window = "1/3SECOND".parse()?;
/// assert_eq!((window.limit.get(), window.per), (1, Duration::from_secs(3)));
/// assert_eq!("300/min".parse::<Window>()?.to_string(), "300/MINUTE");
/// # Ok::<(), docstokg_policy::rate::RateError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Window {
    /// The largest total weight in an interval.
    pub limit: NonZeroU32,
    /// The length of the interval.
    pub per: Duration,
}

impl Window {
    /// Creates a window.
    #[must_use]
    pub const fn new(limit: NonZeroU32, per: Duration) -> Self {
        Self { limit, per }
    }
}

impl fmt::Display for Window {
    /// Writes the form that [`FromStr`] parses: `10/SECOND`, `1/3SECOND`, `5000/HOUR`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.per.as_micros();
        for (unit, length) in [
            ("DAY", 86_400_000_000),
            ("HOUR", 3_600_000_000),
            ("MINUTE", 60_000_000),
            ("SECOND", 1_000_000),
        ] {
            if micros.is_multiple_of(length) {
                let count = micros / length;
                return match count {
                    1 => write!(f, "{}/{unit}", self.limit),
                    _ => write!(f, "{}/{count}{unit}", self.limit),
                };
            }
        }
        write!(f, "{}/{}MILLISECOND", self.limit, micros / 1_000)
    }
}

/// The reason why a text is not a rate.
///
/// ```
/// use docstokg_policy::rate::parse_rates;
///
/// let error = parse_rates("10/FORTNIGHT").unwrap_err();
/// assert_eq!(error.why, "the unit is not one of SECOND, MINUTE, HOUR, DAY");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is not a rate: {why}; write for instance 10/SECOND, 1/3SECOND or 10/SECOND+5000/HOUR"
)]
pub struct RateError {
    /// The text as given.
    pub text: String,
    /// The reason, in words.
    pub why: &'static str,
}

impl FromStr for Window {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Self, RateError> {
        let wrong = |why| RateError {
            text: text.trim().to_owned(),
            why,
        };
        let (count, per) = text
            .split_once('/')
            .ok_or_else(|| wrong("there is no '/' in it"))?;
        let count = count.trim();
        if count.starts_with('-') {
            return Err(wrong("the count is negative"));
        }
        let limit: u32 = count
            .parse()
            .map_err(|_| wrong("the count before '/' is not a whole number up to 4294967295"))?;
        let limit = NonZeroU32::new(limit).ok_or_else(|| wrong("the count is zero"))?;

        let per = per.trim();
        let digits = per.len() - per.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (multiple, unit) = per.split_at(digits);
        let multiple: u32 = match multiple {
            "" => 1,
            text => text
                .parse()
                .map_err(|_| wrong("the number before the unit is too large"))?,
        };
        if multiple == 0 {
            return Err(wrong("the time after '/' is zero"));
        }
        let unit = unit_length(unit.trim())
            .ok_or_else(|| wrong("the unit is not one of SECOND, MINUTE, HOUR, DAY"))?;
        let per = unit
            .checked_mul(multiple)
            .filter(|per| *per <= MAX_WINDOW)
            .ok_or_else(|| wrong("the time is longer than 31 days"))?;
        Ok(Self { limit, per })
    }
}

/// The longest window. Stores keep permits slightly longer than this.
pub const MAX_WINDOW: Duration = Duration::from_secs(31 * 86_400);

fn unit_length(unit: &str) -> Option<Duration> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "ms" | "millisecond" | "milliseconds" => Duration::from_millis(1),
        "s" | "sec" | "secs" | "second" | "seconds" => Duration::from_secs(1),
        "m" | "min" | "mins" | "minute" | "minutes" => Duration::from_secs(60),
        "h" | "hr" | "hour" | "hours" => Duration::from_secs(3_600),
        "d" | "day" | "days" => Duration::from_secs(86_400),
        _ => return None,
    })
}

/// Parses windows joined by `+`: `10/SECOND+5000/HOUR`. All of them apply.
///
/// ```
/// use docstokg_policy::rate::{format_rates, parse_rates, rates_in_words};
///
/// let windows = parse_rates("2/s+500/hour")?;
/// assert_eq!(format_rates(&windows), "2/SECOND+500/HOUR");
/// assert_eq!(rates_in_words(&windows), "2 a second, 500 an hour");
/// # Ok::<(), docstokg_policy::rate::RateError>(())
/// ```
///
/// # Errors
/// Returns [`RateError`] for the first part that is not a rate.
pub fn parse_rates(text: &str) -> Result<Vec<Window>, RateError> {
    text.split('+').map(str::parse).collect()
}

/// Writes windows in the form that [`parse_rates`] parses.
#[must_use]
pub fn format_rates(windows: &[Window]) -> String {
    windows
        .iter()
        .map(Window::to_string)
        .collect::<Vec<_>>()
        .join("+")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rates_are_read_in_every_usual_spelling() {
        for (text, limit, seconds) in [
            ("10/SECOND", 10, 1),
            ("1/3SECOND", 1, 3),
            ("5000/HOUR", 5_000, 3_600),
            ("8/second", 8, 1),
            ("1000/DAY", 1_000, 86_400),
            ("300/min", 300, 60),
            (" 24 / 1 Minutes ", 24, 60),
            ("5/10s", 5, 10),
        ] {
            let window: Window = text.parse().unwrap();
            assert_eq!(
                (window.limit.get(), window.per.as_secs()),
                (limit, seconds),
                "{text}"
            );
        }
        assert_eq!(parse_rates("30/SECOND+12000/HOUR").unwrap().len(), 2);
    }

    #[test]
    fn what_is_not_a_rate_says_why() {
        for (text, why) in [
            ("10", "no '/'"),
            ("0/SECOND", "zero"),
            ("-5/SECOND", "negative"),
            ("ten/SECOND", "whole number"),
            ("10/FORTNIGHT", "unit"),
            ("10/0SECOND", "zero"),
            ("10/99999999999DAY", "too large"),
            ("10/9999999DAY", "longer than 31 days"),
            ("10/", "unit"),
            ("10/SECOND+", "no '/'"),
        ] {
            let error = parse_rates(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(limit in 1u32.., per in 1u32..100_000, unit in 0usize..4) {
            let unit = [1u64, 60, 3_600, 86_400][unit];
            let per = Duration::from_secs(u64::from(per) * unit);
            prop_assume!(per <= MAX_WINDOW);
            let window = Window::new(NonZeroU32::new(limit).unwrap(), per);
            prop_assert_eq!(window.to_string().parse::<Window>().unwrap(), window);
        }

        #[test]
        fn parse_rates_reads_any_text_without_a_panic(text in ".{0,40}") {
            let _ = parse_rates(&text);
        }
    }
}
