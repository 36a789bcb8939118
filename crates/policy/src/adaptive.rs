//! The adaptive rate: slower while an origin throttles, and back to the configured rate afterwards.
//!
//! A window with many throttling responses lowers the multiplier by a share; a window with few
//! raises it. The multiplier stretches the pacing windows of a budget. A rate is never rounded down
//! to zero, and a change of the rate keeps the history of used permits.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::BootInstant;
use crate::windows::Multiplier;

/// The settings of the adaptive rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdaptivePolicy {
    /// The time over which responses are counted before the rate changes.
    pub window: Duration,
    /// The share of throttling responses in a window from which the rate decreases.
    pub high_ratio: f64,
    /// The share by which the rate increases.
    pub increase: f64,
    /// The share by which the rate decreases.
    pub decrease: f64,
    /// The lowest [`Multiplier`].
    pub lowest: Multiplier,
    /// The highest [`Multiplier`].
    pub highest: Multiplier,
}

impl Default for AdaptivePolicy {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(60),
            high_ratio: 0.05,
            increase: 0.05,
            decrease: 0.20,
            lowest: Multiplier::from_share(0.3),
            highest: Multiplier::FULL,
        }
    }
}

/// The facts about a response that the adaptive rate needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedResponse {
    /// Set if the origin throttled.
    pub throttled: bool,
    /// The instant at which a request last ended its wait for the rate; `None` if no request
    /// waited.
    pub waited_at: Option<BootInstant>,
}

/// The counts of responses in the current window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThrottleWindow {
    started: BootInstant,
    calls: u32,
    throttled: u32,
}

/// A change of the [`Multiplier`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adjustment {
    /// The [`Multiplier`] before the change.
    pub old: Multiplier,
    /// The [`Multiplier`] after the change.
    pub new: Multiplier,
    /// The reason of the change: `high_429_ratio` or `low_429_ratio`.
    pub reason: &'static str,
}

impl ThrottleWindow {
    /// Counts a response. The first response after the end of a window also decides on the rate: if
    /// the [`Multiplier`] changes, its change is returned.
    pub fn observe(
        &mut self,
        policy: &AdaptivePolicy,
        multiplier: Multiplier,
        answer: ObservedResponse,
        now: BootInstant,
    ) -> Option<Adjustment> {
        let adjustment = if self.calls > 0 && self.started + policy.window <= now {
            let was_binding = answer.waited_at.is_some_and(|at| at >= self.started);
            self.decide(policy, multiplier, was_binding)
        } else {
            None
        };
        if self.calls == 0 || self.started + policy.window <= now {
            *self = Self {
                started: now,
                calls: 0,
                throttled: 0,
            };
        }
        self.calls = self.calls.saturating_add(1);
        self.throttled = self.throttled.saturating_add(u32::from(answer.throttled));
        adjustment
    }

    /// Returns whether the current window began at least `memory` ago, because responses no longer
    /// arrive.
    #[must_use]
    pub fn is_stale(&self, memory: Duration, now: BootInstant) -> bool {
        self.started + memory <= now
    }

    fn decide(
        &self,
        policy: &AdaptivePolicy,
        old: Multiplier,
        was_binding: bool,
    ) -> Option<Adjustment> {
        let high = f64::from(self.throttled) / f64::from(self.calls) >= policy.high_ratio;
        // If no request waited for the rate, a higher rate has not been needed.
        if !high && !was_binding {
            return None;
        }
        let factor = if high {
            1.0 - policy.decrease
        } else {
            1.0 + policy.increase
        };
        let new = Multiplier::from_share(old.share() * factor).clamp(policy.lowest, policy.highest);
        let reason = if high {
            "high_429_ratio"
        } else {
            "low_429_ratio"
        };
        (new != old).then_some(Adjustment { old, new, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> BootInstant {
        BootInstant::from_micros(seconds * 1_000_000)
    }

    fn waited(throttled: bool, second: u64) -> ObservedResponse {
        ObservedResponse {
            throttled,
            waited_at: Some(at(second)),
        }
    }

    #[test]
    fn many_throttled_answers_lower_the_rate_and_few_raise_it() {
        let policy = AdaptivePolicy::default();
        let mut counts = ThrottleWindow::default();
        let mut multiplier = Multiplier::FULL;
        let mut seen = Vec::new();
        for second in 0..400 {
            let throttled = second < 120 && second % 10 == 0;
            let answer = waited(throttled, second);
            if let Some(adjustment) = counts.observe(&policy, multiplier, answer, at(second)) {
                multiplier = adjustment.new;
                seen.push((adjustment.new.share(), adjustment.reason));
            }
        }
        let shares: Vec<f64> = seen.iter().map(|(share, _)| *share).collect();
        assert_eq!(shares, [0.8, 0.64, 0.672, 0.706, 0.741, 0.778]);
        assert_eq!((seen[1].1, seen[2].1), ("high_429_ratio", "low_429_ratio"));
    }

    #[test]
    fn a_rate_that_nothing_waits_for_is_not_raised() {
        let policy = AdaptivePolicy::default();
        let mut counts = ThrottleWindow::default();
        let lowered = Multiplier::from_share(0.5);
        for second in 0..400 {
            let answer = ObservedResponse {
                throttled: false,
                waited_at: None,
            };
            assert_eq!(counts.observe(&policy, lowered, answer, at(second)), None);
        }
    }

    #[test]
    fn adaptive_multiplier_stays_within_its_bounds() {
        let policy = AdaptivePolicy::default();
        let mut counts = ThrottleWindow::default();
        let mut multiplier = Multiplier::FULL;
        for second in 0..1_000 {
            multiplier = counts
                .observe(&policy, multiplier, waited(true, second), at(second))
                .map_or(multiplier, |adjustment| adjustment.new);
        }
        assert_eq!(multiplier, policy.lowest);
    }
}
