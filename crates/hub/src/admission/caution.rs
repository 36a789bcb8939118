//! Caution while a host fails: after a failure no more requests wait for an answer than the failures
//! that its breaker still needs to open. So an outage meets as many requests as open the breaker,
//! however long answers take.
//!
//! Each process counts its own requests, until the headers of their answers come. Any answer that is
//! not a failure ends it, and so does time: an origin that takes longer to answer is not kept waiting
//! for. A request that cannot wait is not delayed.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use docstokg_policy::classify::Outcome;
use tokio::sync::Notify;

use super::{AdmissionContext, Lane, Terms, Waits};
use crate::clock::{BootInstant, before};
use crate::event::What;
use crate::journey::Track;

/// How long after a failure requests wait for the answers to others.
const LONGEST: Duration = Duration::from_secs(2);

/// How many requests to a site wait for an answer, and how many have failed in a row.
#[derive(Default)]
pub(super) struct Caution {
    unanswered: AtomicU32,
    failures: AtomicU32,
    /// When the last one failed, in microseconds.
    failed_at: AtomicU64,
    changed: Notify,
}

/// Why a request has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hold {
    failures: u32,
    until: BootInstant,
}

impl Caution {
    /// Takes note of a request that goes.
    pub(super) fn note_sent(&self) {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes note of the headers of an answer, or that there will be none; with what they mean, where
    /// that is known.
    pub(super) fn note_answer(&self, outcome: Option<Outcome>, now: impl FnOnce() -> BootInstant) {
        self.unanswered.fetch_sub(1, Ordering::Relaxed);
        let failures = self.failures.load(Ordering::Relaxed);
        match outcome {
            Some(Outcome::Failure) => {
                self.failed_at.store(now().as_micros(), Ordering::Relaxed);
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

    /// Returns why a request has to wait, where it has to.
    fn holds(&self, fail_max: u32, now: impl FnOnce() -> BootInstant) -> Option<Hold> {
        let failures = self.failures.load(Ordering::Relaxed);
        if failures == 0 {
            return None;
        }
        let most = fail_max.saturating_sub(failures).max(1);
        let failed_at = BootInstant::from_micros(self.failed_at.load(Ordering::Relaxed));
        let until = failed_at + LONGEST;
        let is_held = self.unanswered.load(Ordering::Relaxed) >= most && now() < until;
        is_held.then_some(Hold { failures, until })
    }
}

impl Lane {
    /// Returns why a request has to wait for answers to others, where it has to. One that cannot
    /// wait that long goes now: its time may be needed for the rate.
    fn held_by_caution(&self, terms: &Terms) -> Option<Hold> {
        let breaker = &self.rules.policy.breaker;
        let site = &self.site;
        let held = (site.caution).holds(breaker.fail_max.get(), || site.runtime.boot())?;
        let can_wait = held.until <= terms.latest.min(terms.deadline);
        (can_wait && !breaker.shadow && !self.costs.is_empty()).then_some(held)
    }

    /// Returns whether a request has to wait for answers to others.
    pub(super) fn is_cautious(&self, terms: &Terms) -> bool {
        self.held_by_caution(terms).is_some()
    }

    /// Waits for answers to other requests after a failure, where the request may wait.
    pub(super) async fn wait_cautiously(
        &self,
        terms: &Terms,
        context: &AdmissionContext<'_>,
        track: &Track,
        waits: &mut Waits,
    ) {
        if !self.is_cautious(terms) {
            return;
        }
        let since = context.runtime.boot();
        let mut is_noted = false;
        loop {
            let mut changed = pin!(self.site.caution.changed.notified());
            changed.as_mut().enable();
            let Some(held) = self.held_by_caution(terms) else {
                break;
            };
            if !std::mem::replace(&mut is_noted, true) {
                track.note(&self.key.host, self.key.role, || What::WaitCaution {
                    failures: held.failures,
                });
            }
            if before(&**context.runtime, held.until, changed)
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

    fn at(seconds: u64) -> BootInstant {
        BootInstant::from_micros(1_000_000_000 + seconds * 1_000_000)
    }

    fn sent(requests: u32) -> Caution {
        let caution = Caution::default();
        for _ in 0..requests {
            caution.note_sent();
        }
        caution
    }

    /// Returns after how many failures a request has to wait.
    fn held(caution: &Caution, now: BootInstant) -> Option<u32> {
        caution.holds(5, || now).map(|held| held.failures)
    }

    fn fails(caution: &Caution) {
        caution.note_answer(Some(Outcome::Failure), || at(0));
    }

    #[test]
    fn no_more_wait_for_an_answer_than_failures_are_left() {
        let caution = sent(4);
        assert_eq!(held(&caution, at(0)), None, "nothing has failed");
        fails(&caution);
        assert_eq!(held(&caution, at(0)), None, "three wait, four may");
        caution.note_sent();
        assert_eq!(held(&caution, at(0)), Some(1));
        for _ in 0..3 {
            fails(&caution);
        }
        assert_eq!(held(&caution, at(0)), Some(4), "one waits");
        caution.note_answer(None, || at(0));
        assert_eq!(held(&caution, at(0)), None, "one may always go");
    }

    #[test]
    fn any_other_answer_and_time_end_it() {
        for outcome in [Outcome::Success, Outcome::Neutral, Outcome::Throttled] {
            let caution = sent(9);
            fails(&caution);
            assert!(held(&caution, at(1)).is_some());
            assert_eq!(held(&caution, at(2)), None);
            caution.note_answer(Some(outcome), || at(1));
            assert_eq!(held(&caution, at(1)), None, "{outcome:?}");
        }
    }
}
