//! Computes the minimum time that a run needs under its budgets.

use std::time::Duration;

use docstokg_hub::clock::BootInstant;
use docstokg_hub::policy::budget::{Budget, Demand};
use docstokg_hub::policy::rate::{Window, parse_rates};
use docstokg_hub::policy::windows::Windows;

/// Returns the seconds that `tokens` tokens need under the windows `rates`, if these are unused at
/// first. Also returns the [`Window`] that causes most of the wait.
pub(super) fn seconds(rates: &str, tokens: u64) -> (f64, Option<Window>) {
    let windows = Windows::new(parse_rates(rates).unwrap_or_default(), Duration::ZERO);
    let forecast = Budget::default().forecast(&windows, Demand::of(tokens), BootInstant::ZERO);
    (forecast.after.as_secs_f64(), forecast.because)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_windows_together_set_the_minimum() {
        for (rates, tokens, least, because) in [
            ("10/SECOND", 10, 0.0, None),
            ("10/SECOND", 11, 1.0, Some("10/SECOND")),
            ("1/3SECOND", 5, 12.0, Some("1/3SECOND")),
            ("10/SECOND+60/MINUTE", 61, 60.0, Some("60/MINUTE")),
            ("2/SECOND+500/HOUR", 1_000, 3_849.0, Some("500/HOUR")),
            ("", 9, 0.0, None),
        ] {
            let (seconds, window) = seconds(rates, tokens);
            assert!(
                (seconds - least).abs() < 1e-9,
                "{rates} {tokens}: {seconds}"
            );
            assert_eq!(window.map(|window| window.to_string()).as_deref(), because);
        }
    }
}
