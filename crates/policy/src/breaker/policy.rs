//! The settings of a breaker.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// So many failures within a time open the breaker for a cooldown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollingWindow {
    /// How many failures.
    pub threshold_failures: NonZeroU32,
    /// Within which time.
    pub within: Duration,
    /// For how long it opens.
    pub cooldown: Duration,
}

/// The policy of one breaker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakerPolicy {
    /// Failures in a row that open it.
    pub fail_max: NonZeroU32,
    /// How long an open lasts; with early probes, the longest wait for one during the first open.
    pub reset: Duration,
    /// The longest that repeated opens, or what servers ask for, lengthen it to.
    pub reset_ceiling: Duration,
    /// The longest block that a server may ask for.
    pub retry_after_cap: Duration,
    /// Opens on failures that are not in a row, where set.
    pub window: Option<RollingWindow>,
    /// How many probes of each role may be out at once while half-open.
    pub trial_calls: [u32; 3],
    /// The longest delay of a probe.
    pub jitter: Duration,
    /// A block for a throttling answer without Retry-After, where set.
    pub throttle_block: Option<Duration>,
    /// Throttling answers to requests sent before the last one that counted are the same
    /// congestion: they count once.
    pub one_failure_per_epoch: bool,
    /// Whether an open by failures and connection faults is probed before its reset ends.
    pub early_probes: bool,
    /// Decide and record, but refuse nothing.
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
    /// Returns how long the `opens`-th open in a row lasts: twice the one before, up to the
    /// ceiling; always the same without early probes.
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
