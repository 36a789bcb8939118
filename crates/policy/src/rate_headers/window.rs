//! The window of a quota whose headers state none: `X-RateLimit-*` names a limit, what is left of it
//! and a reset in whole seconds.
//!
//! A response after which one request of the limit is used belongs to the first request of its
//! window, so its reset is the length of the window, rounded up by less than a second. A reset says
//! when more is left at the latest; with the length of the window the client knows when at the
//! earliest.

use std::time::Duration;

use super::{Quota, Reading, Source, Unit};

/// The longest window that is implied: of a longer one a second of rounding is a small part, and the
/// first request of a window that begins with the clock's minute may come late in it.
const LONGEST_IMPLIED: Duration = Duration::from_secs(10);

/// The length of the window that the responses of a host imply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImpliedWindow(Option<Duration>);

impl ImpliedWindow {
    /// Adds the implied window to the quota that states none, and learns from it first. A refused
    /// request teaches nothing. Several quotas without windows cannot be told apart, so they stay
    /// as they are.
    pub fn complete(&mut self, reading: &mut Reading, is_refusal: bool) {
        let mut quotas = reading
            .quotas
            .iter_mut()
            .filter(|quota| lacks_window(quota));
        let (Some(quota), None) = (quotas.next(), quotas.next()) else {
            return;
        };
        if !is_refusal {
            self.learn(quota);
        }
        quota.window = self.0.filter(|window| *window <= LONGEST_IMPLIED);
    }

    fn learn(&mut self, quota: &Quota) {
        let (Some(limit), Some(remaining), Some(resets_in)) =
            (quota.limit, quota.remaining, quota.resets_in)
        else {
            return;
        };
        let stated = Duration::from_secs(resets_in.as_secs());
        let is_longer = self.0.is_some_and(|known| stated > known);
        let is_first = limit.saturating_sub(remaining) == 1;
        let is_shorter = is_first && self.0.is_none_or(|known| stated < known);
        if stated > Duration::ZERO && (is_longer || is_shorter) {
            self.0 = Some(stated);
        }
    }
}

/// Tells whether a quota of requests has a limit and a reset, and no window.
fn lacks_window(quota: &Quota) -> bool {
    quota.window.is_none()
        && quota.unit == Unit::Requests
        && matches!(quota.source, Source::XRateLimit | Source::RateLimitFields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(remaining: u32, resets_in_ms: u64) -> Reading {
        let quota = Quota {
            unit: Unit::Requests,
            window: None,
            limit: Some(5),
            remaining: Some(remaining),
            resets_in: Some(Duration::from_millis(resets_in_ms)),
            partition: None,
            source: Source::XRateLimit,
        };
        Reading {
            quotas: vec![quota],
            ..Reading::default()
        }
    }

    fn completed(window: &mut ImpliedWindow, mut reading: Reading) -> Option<u64> {
        window.complete(&mut reading, false);
        reading.quotas[0].window.map(|window| window.as_secs())
    }

    #[test]
    fn the_first_request_of_a_window_tells_its_length() {
        let mut window = ImpliedWindow::default();
        assert_eq!(completed(&mut window, reading(2, 3_400)), None);
        // A reset since 1970 in whole seconds is up to a second late.
        assert_eq!(completed(&mut window, reading(4, 7_900)), Some(7));
        assert_eq!(completed(&mut window, reading(3, 6_100)), Some(7));
        assert_eq!(completed(&mut window, reading(4, 7_000)), Some(7));
    }

    #[test]
    fn a_longer_reset_and_a_shorter_first_one_correct_it() {
        let mut window = ImpliedWindow::default();
        assert_eq!(completed(&mut window, reading(4, 3_000)), Some(3));
        assert_eq!(completed(&mut window, reading(1, 9_500)), Some(9));
        assert_eq!(completed(&mut window, reading(4, 8_200)), Some(8));
    }

    #[test]
    fn a_long_window_is_not_implied() {
        let mut window = ImpliedWindow::default();
        assert_eq!(completed(&mut window, reading(4, 9_000)), Some(9));
        assert_eq!(completed(&mut window, reading(3, 59_000)), None);
    }

    #[test]
    fn a_refusal_and_several_quotas_tell_nothing() {
        let mut window = ImpliedWindow::default();
        window.complete(&mut reading(4, 3_000), true);
        assert_eq!(window, ImpliedWindow::default());
        let mut two = reading(4, 3_000);
        two.quotas.push(reading(4, 9_000).quotas.remove(0));
        window.complete(&mut two, false);
        assert_eq!(window, ImpliedWindow::default());
    }

    #[test]
    fn a_reset_within_the_second_tells_nothing() {
        let mut window = ImpliedWindow::default();
        assert_eq!(completed(&mut window, reading(4, 900)), None);
    }
}
