//! Rates as the facade's settings write them, and their windows.

use std::num::NonZeroU32;
use std::time::Duration;

use docstokg_policy::rate::{RateError, Window, parse_rates};

const ONE_MINUTE: Duration = Duration::from_secs(60);

/// Returns the [`Window`] that is added to every rate without a minute window: 300 in a minute.
#[must_use]
pub const fn minute_guard() -> Window {
    let limit = NonZeroU32::MIN.saturating_add(299);
    Window::new(limit, ONE_MINUTE)
}

/// Reads `8/second`, or several windows joined by `+`.
///
/// # Errors
/// Names the part that is not a rate, and shows the correct form.
pub fn parse_rate(text: &str) -> Result<Vec<Window>, RateError> {
    parse_rates(text)
}

/// Adds the [`minute_guard`], unless there is a minute window already.
#[must_use]
pub fn with_minute_guard(mut windows: Vec<Window>) -> Vec<Window> {
    if !windows.iter().any(|window| window.per == ONE_MINUTE) {
        windows.push(minute_guard());
    }
    windows
}

/// Returns the rate per second that a [`Window`] allows in the long run, for diagnostics.
#[must_use]
pub fn per_second(window: &Window) -> f64 {
    f64::from(window.limit.get()) / window.per.as_secs_f64()
}

/// Formats a [`Window`] as events show it: `8/s`, `300/min`, `1/3s`.
#[must_use]
pub fn short(window: &Window) -> String {
    let seconds = window.per.as_secs();
    let is_whole = window.per == Duration::from_secs(seconds);
    let (length, unit) = match seconds {
        _ if !is_whole => (window.per.as_millis(), "ms"),
        _ if seconds.is_multiple_of(86_400) => (u128::from(seconds / 86_400), "day"),
        _ if seconds.is_multiple_of(3_600) => (u128::from(seconds / 3_600), "h"),
        _ if seconds.is_multiple_of(60) => (u128::from(seconds / 60), "min"),
        _ => (u128::from(seconds), "s"),
    };
    match length {
        1 => format!("{}/{unit}", window.limit),
        _ => format!("{}/{length}{unit}", window.limit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facade::settings::RateLimits;

    #[test]
    fn a_rate_without_a_minute_window_gets_the_guard() {
        for (text, windows) in [
            ("8/second", vec!["8/s", "300/min"]),
            ("2/minute", vec!["2/min"]),
            ("120/hour", vec!["120/h", "300/min"]),
            ("8/second+12/minute", vec!["8/s", "12/min"]),
            ("1/3second", vec!["1/3s", "300/min"]),
            ("5/500ms", vec!["5/500ms", "300/min"]),
        ] {
            let read = with_minute_guard(parse_rate(text).unwrap());
            assert_eq!(
                read.iter().map(short).collect::<Vec<_>>(),
                windows,
                "{text}"
            );
        }
        let default = RateLimits::default().default.unwrap();
        let default: Vec<String> = default.iter().map(short).collect();
        assert_eq!(default, ["8/s", "300/min"]);
    }

    #[test]
    fn per_second_divides_the_limit_by_the_window() {
        let close = |text: &str, wanted: f64| {
            let windows = parse_rate(text).unwrap();
            assert!((per_second(&windows[0]) - wanted).abs() < 1e-9, "{text}");
        };
        close("8/second", 8.0);
        close("300/minute", 5.0);
        close("120/hour", 120.0 / 3_600.0);
    }
}
