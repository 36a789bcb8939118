//! Decisions from a [`RateHeaderReading`]: stricter windows, and even pacing of the remainder.

use std::num::NonZeroU32;
use std::time::Duration;

use super::{MAX_RESET, RateHeaderReading, Unit};
use crate::rate::Window;
use crate::time::micros;

/// The length up to which windows pace requests; longer windows are quotas.
const MAX_PACING_WINDOW: Duration = Duration::from_secs(60);

/// The permitted effect of headers on configured limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Headers make limits stricter.
    #[default]
    Tighten,
    /// Headers make limits stricter, and raise them to the declared ones.
    Raise,
}

/// Returns the windows that apply after a [`RateHeaderReading`].
///
/// A declared quota of requests is added, unless the configured windows already imply it. With
/// [`Trust::Tighten`], the result never permits more than the configuration. With [`Trust::Raise`],
/// each configured window first rises to the lowest declared rate of its kind: pacing (up to a
/// minute) or quota. A header about a second therefore does not raise a limit per hour.
///
/// Quotas of all partitions count. A caller that separates partitions passes a reading of one.
#[must_use]
pub fn tighten(configured: &[Window], reading: &RateHeaderReading, trust: Trust) -> Vec<Window> {
    let stated = stated_windows(reading);
    let mut windows: Vec<Window> = match trust {
        Trust::Tighten => configured.to_vec(),
        Trust::Raise => {
            let raised = configured.iter().map(|window| raise(*window, &stated));
            raised.collect()
        }
    };
    for window in stated {
        if !windows.iter().any(|known| implies(known, &window)) {
            // A known window of the same length is looser, because it does not imply this one.
            windows.retain(|known| known.per != window.per);
            windows.push(window);
        }
    }
    windows
}

/// Returns the limit of concurrent requests after a [`RateHeaderReading`]; `None` for no limit.
#[must_use]
pub fn tighten_concurrency(
    configured: Option<NonZeroU32>,
    reading: &RateHeaderReading,
    trust: Trust,
) -> Option<NonZeroU32> {
    match (configured, reading.concurrency, trust) {
        (configured, None, _) => configured,
        (None, stated, _) | (_, stated, Trust::Raise) => stated,
        (Some(configured), Some(stated), Trust::Tighten) => Some(configured.min(stated)),
    }
}

/// Returns the distance between two requests at which `remaining` requests last until the reset. If
/// no request remains, returns the whole time until the reset.
///
/// The result is at most [`MAX_RESET`]. Returns `None` if the reset has passed, because the
/// remainder is then outdated.
///
/// ```
/// use std::time::Duration;
/// use docstokg_policy::rate_headers::spread;
///
/// assert_eq!(spread(40, Duration::from_secs(30)), Some(Duration::from_millis(750)));
/// assert_eq!(spread(0, Duration::from_secs(30)), Some(Duration::from_secs(30)));
/// assert_eq!(spread(40, Duration::ZERO), None);
/// ```
#[must_use]
pub fn spread(remaining: u32, resets_in: Duration) -> Option<Duration> {
    let micros = micros(resets_in.min(MAX_RESET));
    // The distance is rounded up, so that the last request is not early.
    let gap = micros.div_ceil(u64::from(remaining.max(1)));
    (gap > 0).then(|| Duration::from_micros(gap))
}

/// Returns the declared quotas of requests as windows. A limit of zero is omitted: its remainder,
/// also zero, stops requests until the reset.
fn stated_windows(reading: &RateHeaderReading) -> Vec<Window> {
    let requests = reading
        .quotas
        .iter()
        .filter(|quota| quota.unit == Unit::Requests);
    requests
        .filter_map(|quota| Some(Window::new(NonZeroU32::new(quota.limit?)?, quota.window?)))
        .collect()
}

/// Returns whether requests that observe the [`Window`] `one` also observe `other`: enough windows
/// of `one` cover the interval of `other`.
fn implies(one: &Window, other: &Window) -> bool {
    if one.per.is_zero() {
        return false;
    }
    let windows = other.per.as_micros().div_ceil(one.per.as_micros().max(1));
    u128::from(one.limit.get()).saturating_mul(windows) <= u128::from(other.limit.get())
}

/// Raises a [`Window`] to the lowest declared rate among windows of its kind: pacing or quota.
fn raise(window: Window, stated: &[Window]) -> Window {
    let is_pacing = |window: &Window| window.per <= MAX_PACING_WINDOW;
    let same_kind = stated
        .iter()
        .filter(|stated| is_pacing(stated) == is_pacing(&window));
    let allowed = same_kind
        .map(|stated| {
            let limit = u128::from(stated.limit.get()).saturating_mul(window.per.as_micros());
            limit / stated.per.as_micros().max(1)
        })
        .min();
    let allowed = allowed.map(|limit| u32::try_from(limit).unwrap_or(u32::MAX));
    let limit = allowed.and_then(NonZeroU32::new).unwrap_or(window.limit);
    Window::new(limit.max(window.limit), window.per)
}
