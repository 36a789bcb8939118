//! What to do with a reading: stricter windows, and the even pacing of what is left.

use std::num::NonZeroU32;
use std::time::Duration;

use super::{MAX_RESET, RateHeaderReading, Unit};
use crate::rate::Window;
use crate::time::micros;

/// Windows up to this length pace requests; longer ones are quotas.
const MAX_PACING_WINDOW: Duration = Duration::from_secs(60);

/// What headers may do to configured limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Make them stricter.
    #[default]
    Tighten,
    /// Make them stricter, and raise them to what the headers state.
    Raise,
}

/// Returns the windows that hold after a reading.
///
/// Quotas of requests that state a window are added where the configured windows do not imply them
/// already, so the result permits nothing that the configuration does not. With [`Trust::Raise`]
/// each configured window first rises to the lowest rate that the headers state for windows of its
/// kind, pacing (up to a minute) or quota: a header about a second says nothing about an hour.
///
/// Quotas of all partitions count. A caller that keeps partitions apart passes a reading of one.
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
            // Where the length is the same, the known one is looser.
            windows.retain(|known| known.per != window.per);
            windows.push(window);
        }
    }
    windows
}

/// Returns the concurrency limit that holds after a reading. None is no limit.
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

/// Returns the time between two requests, so that `remaining` of them last until the reset. If
/// nothing remains it is the whole time until the reset.
///
/// At most [`MAX_RESET`]. None if the reset has come: what remained before it says nothing.
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
    // Rounded up, so that the last one is not early.
    let gap = micros.div_ceil(u64::from(remaining.max(1)));
    (gap > 0).then(|| Duration::from_micros(gap))
}

/// Quotas of requests as windows. One of zero is none: its remainder, also zero, stops requests
/// until the reset.
fn stated_windows(reading: &RateHeaderReading) -> Vec<Window> {
    let requests = reading
        .quotas
        .iter()
        .filter(|quota| quota.unit == Unit::Requests);
    requests
        .filter_map(|quota| Some(Window::new(NonZeroU32::new(quota.limit?)?, quota.window?)))
        .collect()
}

/// Tells whether requests that keep to `one` keep to `other`: an interval is covered by so many
/// windows of `one`.
fn implies(one: &Window, other: &Window) -> bool {
    if one.per.is_zero() {
        return false;
    }
    let windows = other.per.as_micros().div_ceil(one.per.as_micros().max(1));
    u128::from(one.limit.get()).saturating_mul(windows) <= u128::from(other.limit.get())
}

/// Raises a window to the lowest rate that is stated for windows of its kind.
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
