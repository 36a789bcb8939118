//! Forecasts of the instant at which the last of many requests is sent, from windows, used permits
//! and the observed rate.

use std::time::Duration;

use super::Budget;
use crate::rate::Window;
use crate::time::{BootInstant, micros};
use crate::windows::Windows;

/// The number of permits that are computed one by one. The time of further permits is extrapolated.
const MAX_COMPUTED: u64 = 50_000;

/// The requests for which a [`Forecast`] is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// The number of requests to come.
    pub requests: u64,
    /// The observed distance between two requests; zero if unknown.
    pub distance: Duration,
    /// The number of permits per request. The number exceeds one if other requests use the same
    /// host, or after redirects.
    pub permits_each: f64,
}

impl Demand {
    /// Creates a demand without an observed distance.
    #[must_use]
    pub const fn of(requests: u64) -> Self {
        Self {
            requests,
            distance: Duration::ZERO,
            permits_each: 1.0,
        }
    }
}

/// The forecast for the last of many requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forecast {
    /// The time until the last request is sent.
    pub after: Duration,
    /// The limit that causes most of that time; `None` if no limit delays the requests.
    pub because: Option<Window>,
}

impl Budget {
    /// Forecasts when the last request of a [`Demand`] is sent, if requests are sent from `now` on
    /// as soon as the [`Windows`] of a process allow.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "counts of requests and times in microseconds fit"
    )]
    pub fn forecast(&self, windows: &Windows, demand: Demand, now: BootInstant) -> Forecast {
        let permits = (demand.requests as f64 * demand.permits_each.max(0.1)).ceil() as u64;
        let computed = permits.min(MAX_COMPUTED);
        let observed = (micros(demand.distance) as f64 / demand.permits_each.max(0.1)) as u64;
        let spacing = self.spacing_distance(windows, permits, now);
        // The delay that each window causes; the delay by a spacing counts for the limit that it
        // spaces.
        let in_force: Vec<(&Window, u64)> = windows.in_force(self.multiplier).collect();
        let mut waited = vec![0_u64; in_force.len()];
        let mut sent: Vec<u64> = Vec::with_capacity(computed as usize);
        for index in 0..computed {
            let last = sent.last().copied();
            let mut at = last.map_or(0, |last| last + observed);
            let mut take = |free: u64, window: usize| {
                if free > at {
                    waited[window] += free - at;
                    at = free;
                }
            };
            if let (Some((distance, window)), Some(last)) = (spacing, last) {
                take(last + distance, window);
            }
            for (position, (window, width)) in in_force.iter().enumerate() {
                let limit = u64::from(window.limit.get());
                let free = if index >= limit {
                    Some(sent[(index - limit) as usize] + width)
                } else {
                    self.used_back(window, (limit - index) as u32)
                        .map(|used| micros(used.plus_micros(*width).since(now)))
                };
                if let Some(free) = free {
                    take(free, position);
                }
            }
            sent.push(at);
        }
        let after = sent.last().copied().unwrap_or(0);
        let after = if permits > computed {
            (after as f64 * permits as f64 / computed as f64) as u64
        } else {
            after
        };
        let most = waited.iter().enumerate().max_by_key(|(_, waited)| **waited);
        Forecast {
            after: Duration::from_micros(after),
            because: most
                .filter(|(_, waited)| **waited > 0)
                .map(|(index, _)| *in_force[index].0),
        }
    }

    /// Returns the distance of even pacing in microseconds, and the index of the spaced window.
    fn spacing_distance(
        &self,
        windows: &Windows,
        permits: u64,
        now: BootInstant,
    ) -> Option<(u64, usize)> {
        let backlog = u32::try_from(permits).unwrap_or(u32::MAX);
        let in_force = windows.spacings().iter();
        let holds = in_force
            .filter(|spacing| spacing.holds_for(backlog))
            .filter(|spacing| {
                spacing.spread_of().is_none_or(|index| {
                    let window = &windows.list()[index];
                    let left = u64::from(window.limit.get())
                        .saturating_sub(self.used(windows, window, now));
                    permits > left
                })
            });
        let distance = |spacing: &crate::pacing::Spacing| {
            let width = Windows::spacing_width(spacing, self.multiplier);
            let index = windows
                .list()
                .iter()
                .position(|window| window == spacing.limit());
            Some((width / u64::from(spacing.window().limit.get()), index?))
        };
        holds.filter_map(distance).max()
    }

    /// Returns how many permits of the last `span` are recorded for a longer [`Window`].
    #[must_use]
    pub fn used_within(&self, window: &Window, span: Duration, now: BootInstant) -> u64 {
        if window.limit.get() <= crate::ring::EXACT_LIMIT {
            self.ring.count_within(span, now) as u64
        } else {
            self.coarse_of(window)
                .map_or(0, |coarse| coarse.count_within(span, now))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pacing::Pacing;
    use crate::rate::parse_rates;

    fn windows(rates: &str) -> Windows {
        let guard = Duration::from_millis(10);
        Windows::paced(parse_rates(rates).unwrap(), guard, Pacing::Even)
    }

    /// A budget with `permits` used permits, one every `every` seconds, the last one now.
    fn used(rates: &str, permits: u64, every: u64) -> (Budget, Windows, BootInstant) {
        let (windows, mut budget) = (windows(rates), Budget::default());
        budget.remember(&windows);
        let now = BootInstant::from_micros(10_000_000_000);
        for index in 0..permits {
            let ago = (permits - 1 - index) * every * 1_000_000;
            budget.spend(1, BootInstant::from_micros(10_000_000_000 - ago));
        }
        (budget, windows, now)
    }

    fn seconds(forecast: Forecast) -> u64 {
        forecast.after.as_secs()
    }

    #[test]
    fn a_thousand_requests_take_the_hour_and_the_pace_of_the_second() {
        let (budget, windows, now) = used("2/SECOND+500/HOUR", 0, 1);
        let forecast = budget.forecast(&windows, Demand::of(1_000), now);
        // The first 500 requests are sent in 255 s; the last request is sent an hour after them.
        assert!((3_850..3_860).contains(&seconds(forecast)), "{forecast:?}");
        assert_eq!(forecast.because, "500/HOUR".parse().ok());
        let few = budget.forecast(&windows, Demand::of(400), now);
        assert_eq!(seconds(few), 203);
        assert_eq!(few.because, "2/SECOND".parse().ok());
        let none = budget.forecast(&windows, Demand::of(0), now);
        assert_eq!((none.after, none.because), (Duration::ZERO, None));
    }

    #[test]
    fn forecast_counts_requests_sent_before() {
        // Of the last 12 minutes, 364 of 500 permits are used: 136 requests are sent now, the
        // others when the first permits leave the window.
        let (budget, windows, now) = used("2/SECOND+500/HOUR", 364, 2);
        let forecast = budget.forecast(&windows, Demand::of(136), now);
        assert!(seconds(forecast) < 75, "{forecast:?}");
        let forecast = budget.forecast(&windows, Demand::of(388), now);
        // The 252nd of the past permits was used 224 s before now, and leaves the window an hour
        // later.
        let expected = 3_600 - (364 - 252) * 2;
        assert!(seconds(forecast).abs_diff(expected) < 5, "{forecast:?}");
    }

    #[test]
    fn forecast_counts_other_clients_and_a_slower_pace() {
        let (budget, windows, now) = used("2/SECOND+500/HOUR", 0, 1);
        let shared = Demand {
            permits_each: 2.0,
            ..Demand::of(500)
        };
        assert_eq!(
            budget.forecast(&windows, shared, now),
            budget.forecast(&windows, Demand::of(1_000), now)
        );
        let slow = Demand {
            distance: Duration::from_secs(3),
            ..Demand::of(101)
        };
        let forecast = budget.forecast(&windows, slow, now);
        assert_eq!((seconds(forecast), forecast.because), (300, None));
    }

    #[test]
    fn very_many_requests_take_time_in_proportion() {
        let (budget, windows, now) = used("10/SECOND", 0, 1);
        let forecast = budget.forecast(&windows, Demand::of(1_000_000), now);
        assert!(seconds(forecast).abs_diff(102_000) < 1_100, "{forecast:?}");
    }
}
