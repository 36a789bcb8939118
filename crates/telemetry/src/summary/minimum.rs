//! The least time that a run's budgets allow.

use docstokg_hub::policy::rate::{Window, parse_rates};

/// Returns the seconds that `tokens` permits take under configured windows: the first needs none.
pub(super) fn seconds(rates: &str, tokens: u64) -> f64 {
    let windows = parse_rates(rates).unwrap_or_default();
    windows
        .iter()
        .map(|window| of_window(window, tokens))
        .fold(0.0, f64::max)
}

#[expect(clippy::cast_precision_loss, reason = "counts of windows fit")]
fn of_window(window: &Window, tokens: u64) -> f64 {
    let full = tokens.saturating_sub(1) / u64::from(window.limit.get());
    full as f64 * window.per.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_window_sets_the_minimum() {
        for (rates, tokens, least) in [
            ("10/SECOND", 10, 0.0),
            ("10/SECOND", 11, 1.0),
            ("1/3SECOND", 5, 12.0),
            ("10/SECOND+60/MINUTE", 61, 60.0),
            ("", 9, 0.0),
        ] {
            assert!(
                (seconds(rates, tokens) - least).abs() < 1e-9,
                "{rates} {tokens}"
            );
        }
    }
}
