//! The settings of a [`Breaker`](crate::breaker::Breaker).

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A rule that opens a [`Breaker`](crate::breaker::Breaker) after a number of failures within a
/// time, even with successes between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollingWindow {
    /// The number of failures that opens the breaker.
    pub threshold_failures: NonZeroU32,
    /// The time within which failures are counted.
    pub within: Duration,
    /// The length of an open that this rule causes.
    pub cooldown: Duration,
}

/// The policy of one [`Breaker`](crate::breaker::Breaker).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakerPolicy {
    /// The number of failures in a row that opens the breaker.
    pub fail_max: NonZeroU32,
    /// The time from the opening of the breaker to its first probe. With early probes, the longest
    /// wait for a probe during the first open.
    pub reset: Duration,
    /// The upper limit of the reset when repeated opens or the waits of a server lengthen it.
    pub reset_ceiling: Duration,
    /// The longest block that a server may request.
    pub retry_after_cap: Duration,
    /// The rule for failures that are not in a row, if any.
    pub window: Option<RollingWindow>,
    /// The number of concurrent probes of each [`Role`](crate::role::Role) while half-open.
    pub trial_calls: [u32; 3],
    /// The longest random delay of a probe, so that probes of many processes do not coincide.
    pub jitter: Duration,
    /// The length of a block after a throttling response without Retry-After; `None` for no block.
    pub throttle_block: Option<Duration>,
    /// Set if throttling responses count as one failure while they show the same congestion: a
    /// response does not count if its request was sent before the last counted failure.
    pub one_failure_per_epoch: bool,
    /// Set if an open after failures and connection faults is probed before its reset ends.
    pub early_probes: bool,
    /// Set in shadow mode: the breaker decides and records, but refuses no request.
    pub shadow: bool,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self {
            fail_max: NonZeroU32::new(5).unwrap_or(NonZeroU32::MIN),
            reset: Duration::from_secs(60),
            reset_ceiling: Duration::from_secs(900),
            retry_after_cap: Duration::from_secs(86_400),
            window: None,
            trial_calls: [1, 1, 2],
            jitter: Duration::from_millis(150),
            throttle_block: None,
            one_failure_per_epoch: false,
            early_probes: true,
            shadow: false,
        }
    }
}

impl BreakerPolicy {
    /// Returns the length of the `opens`-th open in a row; `learned` is the reset learned from
    /// Retry-After. With early probes, each open lasts twice as long as the one before, up to the
    /// ceiling.
    ///
    /// ```
    /// use std::time::Duration;
    /// use docstokg_policy::breaker::BreakerPolicy;
    ///
    /// let policy = BreakerPolicy::default();
    /// let resets = [1, 2, 5, 9].map(|opens| policy.reset_after(opens, Duration::ZERO).as_secs());
    /// assert_eq!(resets, [60, 120, 900, 900]);
    /// ```
    #[must_use]
    pub fn reset_after(&self, opens: u32, learned: Duration) -> Duration {
        let doublings = if self.early_probes {
            opens.saturating_sub(1).min(20)
        } else {
            0
        };
        self.reset
            .max(learned)
            .saturating_mul(1 << doublings)
            .min(self.reset_ceiling.max(self.reset))
    }
}
