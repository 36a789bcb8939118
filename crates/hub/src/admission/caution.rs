//! Caution while a host fails: after the first failure no more requests are on their way than the
//! failures that its breaker still needs to open. So an outage meets as many requests as open the
//! breaker, however long answers take.
//!
//! Each process counts its own requests. Any answer that is not a failure ends it, and a request that
//! cannot wait is not delayed.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};

use docstokg_policy::classify::Outcome;
use tokio::sync::Notify;

use super::{AdmissionContext, Lane, Terms, Waits};
use crate::clock::before;
use crate::event::What;
use crate::journey::Track;

/// How many requests to a site are on their way, and how many have failed in a row.
#[derive(Default)]
pub(super) struct Caution {
    in_flight: AtomicU32,
    failures: AtomicU32,
    changed: Notify,
}

impl Caution {
    /// Takes note of a request that goes.
    pub(super) fn note_sent(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes note of a request that has ended, with what it came to where that is known.
    pub(super) fn note_ended(&self, outcome: Option<Outcome>) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        let failures = self.failures.load(Ordering::Relaxed);
        match outcome {
            Some(Outcome::Failure) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
            }
            Some(_) if failures > 0 => self.failures.store(0, Ordering::Relaxed),
            Some(_) | None => {}
        }
        if failures > 0 {
            self.changed.notify_waiters();
        }
    }

    /// Ends it: the breaker has opened or closed, and rules from now on.
    pub(super) fn end(&self) {
        self.failures.store(0, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// Returns after how many failures in a row a request has to wait, where it has to.
    fn holds(&self, fail_max: u32) -> Option<u32> {
        let failures = self.failures.load(Ordering::Relaxed);
        let most = fail_max.saturating_sub(failures).max(1);
        (failures > 0 && self.in_flight.load(Ordering::Relaxed) >= most).then_some(failures)
    }
}

impl Lane {
    /// Returns whether requests have to wait for answers to those on their way.
    pub(super) fn is_cautious(&self) -> bool {
        let breaker = &self.rules.breaker;
        let held = self.site.caution.holds(breaker.fail_max.get());
        held.is_some() && !breaker.shadow && !self.costs.is_empty()
    }

    /// Waits for answers to requests on their way after a failure, where the request may wait.
    pub(super) async fn wait_cautiously(
        &self,
        terms: &Terms,
        context: &AdmissionContext<'_>,
        track: &Track,
        waits: &mut Waits,
    ) {
        if !self.is_cautious() {
            return;
        }
        let (caution, fail_max) = (&self.site.caution, self.rules.breaker.fail_max.get());
        let since = context.runtime.boot();
        let patience = terms.latest.min(terms.deadline);
        loop {
            let mut changed = pin!(caution.changed.notified());
            changed.as_mut().enable();
            let Some(failures) = caution.holds(fail_max) else {
                break;
            };
            track.note(&self.key.host, self.key.role, || What::WaitCaution {
                failures,
            });
            if before(&**context.runtime, patience, changed)
                .await
                .is_none()
            {
                break;
            }
        }
        waits.breaker += context.runtime.boot().since(since);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_on_their_way_than_failures_are_left() {
        let caution = Caution::default();
        for _ in 0..4 {
            caution.note_sent();
        }
        assert_eq!(caution.holds(5), None, "nothing has failed");
        caution.note_ended(Some(Outcome::Failure));
        assert_eq!(caution.holds(5), None, "three on their way, four may be");
        caution.note_sent();
        assert_eq!(caution.holds(5), Some(1));
        for _ in 0..3 {
            caution.note_ended(Some(Outcome::Failure));
        }
        assert_eq!(caution.holds(5), Some(4), "one is on its way");
        caution.note_ended(None);
        assert_eq!(caution.holds(5), None, "one may always go");
    }

    #[test]
    fn any_other_answer_ends_it() {
        for outcome in [Outcome::Success, Outcome::Neutral, Outcome::Throttled] {
            let caution = Caution::default();
            for _ in 0..9 {
                caution.note_sent();
            }
            caution.note_ended(Some(Outcome::Failure));
            assert!(caution.holds(5).is_some());
            caution.note_ended(Some(outcome));
            assert_eq!(caution.holds(5), None, "{outcome:?}");
        }
    }
}
