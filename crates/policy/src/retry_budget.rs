//! The retry budget of a site: the retries of all processes stay a share of the successful
//! requests.
//!
//! A failing origin must not get more load than a healthy one. The first few retries are free.
//! Further retries must be earned by successes. A retry after a throttling response costs half,
//! because the origin is up.

use serde::{Deserialize, Serialize};

use crate::classify::AttemptMeaning;
use crate::time::{BootInstant, micros};

/// The cost of a retry after a transient fault.
const TRANSIENT_COST: u16 = 10;
/// The cost of a retry after a throttling response.
const THROTTLED_COST: u16 = 5;
/// The credit for retries in advance: ten retries.
const ADVANCE_CREDIT: u16 = 10 * TRANSIENT_COST;
/// The credit for a success: a fifth of a retry.
const SUCCESS_CREDIT: u16 = 2;

/// The time in microseconds after which one retry is earned back without a success.
const FORGIVEN_AFTER: u64 = 60_000_000;

/// The used part of a retry budget.
///
/// ```
/// use docstokg_policy::classify::AttemptMeaning;
/// use docstokg_policy::retry_budget::RetryBudget;
/// use docstokg_policy::time::BootInstant;
///
/// let now = BootInstant::from_micros(0);
/// let mut budget = RetryBudget::default();
/// assert!(budget.settle(AttemptMeaning::Failure, true, now));
/// let spent = budget.spent();
/// budget.settle(AttemptMeaning::Success, false, now);
/// assert!(budget.spent() < spent, "a success earns retries");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryBudget {
    spent: u16,
    /// The instant from which time earns retries back.
    since: BootInstant,
}

impl RetryBudget {
    /// Creates a budget with `spent` used credit, of which the passage of time after `since` earns
    /// some back.
    #[must_use]
    pub const fn new(spent: u16, since: BootInstant) -> Self {
        Self { spent, since }
    }

    /// Returns the used credit; zero if no retry must be earned back.
    #[must_use]
    pub const fn spent(self) -> u16 {
        self.spent
    }

    /// Records the result of an attempt. Returns whether a retry is allowed, if the attempt wants
    /// one.
    pub fn settle(&mut self, outcome: AttemptMeaning, wants_retry: bool, now: BootInstant) -> bool {
        self.forgive(now);
        let cost = match outcome {
            AttemptMeaning::Success => {
                self.spent = self.spent.saturating_sub(SUCCESS_CREDIT);
                return true;
            }
            AttemptMeaning::Neutral => 0,
            AttemptMeaning::Failure => TRANSIENT_COST,
            AttemptMeaning::Throttled => THROTTLED_COST,
        };
        if !wants_retry {
            return true;
        }
        let may = self.spent.saturating_add(cost) <= ADVANCE_CREDIT;
        if may {
            if self.spent == 0 {
                self.since = now;
            }
            self.spent += cost;
        }
        may
    }

    /// Earns one retry back for each minute that has passed.
    fn forgive(&mut self, now: BootInstant) {
        if self.spent == 0 {
            return;
        }
        let minutes = micros(now.since(self.since)) / FORGIVEN_AFTER;
        let earned = u16::try_from(minutes)
            .unwrap_or(u16::MAX)
            .saturating_mul(TRANSIENT_COST);
        self.spent = self.spent.saturating_sub(earned);
        self.since = self.since.plus_micros(minutes * FORGIVEN_AFTER);
    }

    /// Moves the instant of the budget to the clock of the current boot.
    pub(crate) fn rebase(&mut self, shift: &dyn Fn(BootInstant) -> BootInstant) {
        self.since = shift(self.since);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: BootInstant = BootInstant::from_micros(1_000_000_000);

    /// Sends `offered` requests with up to three retries each to an origin whose failures `fails`
    /// defines. Returns the number of requests that the origin received.
    fn load(offered: u32, mut fails: impl FnMut(u32) -> AttemptMeaning) -> u32 {
        let mut budget = RetryBudget::default();
        let mut sent = 0;
        for _ in 0..offered {
            for attempt in 1..=4 {
                sent += 1;
                let outcome = fails(sent);
                let may = budget.settle(outcome, attempt < 4, NOW);
                if outcome == AttemptMeaning::Success || !may {
                    break;
                }
            }
        }
        sent
    }

    #[test]
    fn an_origin_that_is_down_gets_ten_retries_in_all() {
        assert_eq!(load(100, |_| AttemptMeaning::Failure), 110);
        assert_eq!(load(100, |_| AttemptMeaning::Throttled), 120);
        assert_eq!(load(100, |_| AttemptMeaning::Success), 100);
    }

    #[test]
    fn time_earns_a_retry_a_minute() {
        let mut budget = RetryBudget::default();
        while budget.settle(AttemptMeaning::Failure, true, NOW) {}
        let later = NOW.plus_micros(125_000_000);
        let may = [(); 3].map(|()| budget.settle(AttemptMeaning::Failure, true, later));
        assert_eq!(may, [true, true, false]);
    }

    #[test]
    fn a_few_failures_among_successes_are_always_repeated() {
        // One in ten requests fails and is repeated, which is less than successes earn.
        let sent = load(1_000, |sent| match sent % 11 {
            0 => AttemptMeaning::Failure,
            _ => AttemptMeaning::Success,
        });
        assert_eq!(sent, 1_099);
    }

    proptest! {
        #[test]
        fn retries_never_exceed_a_fifth_of_the_successes_beyond_the_free_ones(
            outcomes in proptest::collection::vec((0..4u8, any::<bool>()), 1..2_000),
        ) {
            let (mut budget, mut retries, mut successes) = (RetryBudget::default(), 0, 0);
            for (outcome, wants) in outcomes {
                let outcome = [
                    AttemptMeaning::Success,
                    AttemptMeaning::Failure,
                    AttemptMeaning::Throttled,
                    AttemptMeaning::Neutral,
                ][usize::from(outcome)];
                let may = budget.settle(outcome, wants, NOW);
                successes += u32::from(outcome == AttemptMeaning::Success);
                retries += u32::from(outcome == AttemptMeaning::Failure && wants && may);
                prop_assert!(retries <= 10 + successes / 5);
                prop_assert!(budget.spent() <= ADVANCE_CREDIT);
            }
        }
    }
}
