//! Learned limits within a site: when a request may go by them, and what each answer teaches.

use std::num::NonZeroU32;
use std::time::Duration;

use super::order::OwnReservation;
use super::{Ask, Permit, Report, Site};
use crate::budget::Budget;
use crate::classify::Outcome;
use crate::learn::{Answer, Confirmed};
use crate::learned::Learned;
use crate::rate::Window;
use crate::time::BootInstant;

impl Site {
    /// Forgets what was learned and what the host stated, and returns whether there was anything.
    pub fn forget_learned(&mut self) -> bool {
        self.touched = true;
        self.added.as_mut().is_some_and(|added| {
            let learned = added.learned.take().is_some();
            added.quotas.take().is_some() || learned
        })
    }

    /// Gives up requests whose answers are overdue, and what was learned too long ago.
    pub(super) fn expire_learned(&mut self, now: BootInstant) {
        let Some(added) = &mut self.added else { return };
        if let Some(learned) = &mut added.learned {
            learned.expire(now);
        }
        added.learned.take_if(|learned| learned.is_over(now));
    }

    /// Returns when a request may go by what was learned; `None` where that says nothing.
    pub(super) fn learned_instant(
        &self,
        ask: &Ask<'_>,
        own: Option<OwnReservation>,
        is_probe: bool,
        now: BootInstant,
    ) -> Option<BootInstant> {
        let learned = self.learned().filter(|_| !is_probe)?;
        let waiting = self.waiting_before(ask, own);
        let earlier = waiting.saturating_add(ask.queue_position.ahead().unwrap_or(0));
        Some(learned.next(ask.learn?, earlier, now))
    }

    /// Returns the learned limit that holds requests back, as a window.
    pub(super) fn learned_window(&self) -> Option<Window> {
        self.learned().map(Learned::window)
    }

    /// Notes that a request goes now; returns whether its answer teaches anything.
    pub(super) fn note_sent(&mut self, ask: &Ask<'_>, id: u64, now: BootInstant) -> bool {
        let Some(policy) = ask.learn else {
            return false;
        };
        if ask.searches_upwards() && self.learned().is_none() {
            self.added_mut().learned = Some(Learned::from_nothing(now));
        }
        let Some(learned) = self.learned_mut() else {
            return false;
        };
        learned.sent(policy, id, now);
        true
    }

    /// Takes in an answer. A first refusal starts to learn from the history of its budget.
    pub(super) fn learn_from(
        &mut self,
        ask: &Ask<'_>,
        permit: &Permit,
        report: &Report,
        now: BootInstant,
    ) -> Option<Confirmed> {
        ask.learn?;
        let answer = match report.outcome {
            Outcome::Success => Answer::Served,
            Outcome::Neutral => Answer::Neutral,
            Outcome::Failure => Answer::Other,
            Outcome::Throttled => Answer::Throttled {
                retry_after: report
                    .retry_after
                    .map(|asked| now + asked.min(ask.breaker.retry_after_cap)),
            },
        };
        if self.learned().is_none() && report.outcome == Outcome::Throttled {
            let budget = ask.costs.first().map(|cost| &self.budgets[cost.budget]);
            let history = budget.into_iter().flat_map(Budget::instants);
            let learned = Learned::from_history(history, now);
            self.added_mut().learned = Some(learned);
        }
        let learned = self.learned_mut()?;
        learned.answered((permit.id, permit.stamp), answer, ask.jitter_sample, now)
    }

    /// Takes in the headers of an answer whose body is still to come. Returns whether other requests
    /// may have waited for them. Refusals are taken in when the attempt is settled.
    pub(super) fn hear_headers(
        &mut self,
        ask: &Ask<'_>,
        permit: &Permit,
        outcome: Outcome,
        now: BootInstant,
    ) -> bool {
        let answer = match outcome {
            Outcome::Success => Answer::Served,
            Outcome::Neutral => Answer::Neutral,
            Outcome::Failure | Outcome::Throttled => return false,
        };
        let learned = self.learned_mut().filter(|_| ask.learn.is_some());
        learned.is_some_and(|learned| learned.heard(permit.id, answer, now))
    }

    /// Returns how long nothing is sent after a refusal, by what was learned.
    pub(super) fn learned_wait(&self, ask: &Ask<'_>, now: BootInstant) -> Option<Duration> {
        ask.learn?;
        let learned = self.learned()?;
        Some(learned.not_before(now).since(now))
    }
}

impl Learned {
    /// Returns the limit that allows least, as a window.
    fn window(&self) -> Window {
        let at = self.tightest();
        let micros = u64::try_from(at.1.as_micros()).unwrap_or(u64::MAX);
        Window::new(
            NonZeroU32::new(at.0).unwrap_or(NonZeroU32::MIN),
            Duration::from_millis((micros / 1_000).max(1)),
        )
    }
}
