//! What is known of a host's own limits: what was learned from its refusals, and what it states.
//!
//! It changes by events alone, each at an instant. A site applies them as they happen. A store that
//! cannot run these functions where its state lies records them instead ([`LimitEvent`]), and every
//! process applies the records in their order.

use std::time::Duration;

use super::{Ask, Permit, Report};
use crate::classify::Outcome;
use crate::extension::Extensions;
use crate::learn::{Answer, Confirmed};
use crate::learned::{LearnPolicy, Learned, Taught};
use crate::quota::{Heard, Need, Quotas, Statement, Turn};
use crate::rate::Window;
use crate::time::BootInstant;

mod event;

pub use event::{Answered, Applied, LimitEvent};

/// The tag of what was learned among the extensions. A new layout takes a new tag: what is under an
/// older one is forgotten.
const LEARNED: u8 = 8;
/// The tag of stated quotas.
const QUOTAS: u8 = 7;
/// The tags of earlier layouts.
const OUTDATED: [u8; 5] = [1, 2, 4, 5, 6];

/// What is known of a host's own limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostLimits {
    /// What was learned.
    pub(super) learned: Option<Learned>,
    /// What the host states about its quotas.
    pub(super) quotas: Option<Quotas>,
}

/// When a request may go by what is known; `None` where that says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitTurn {
    /// By what was learned. A probe of the breaker does not obey it.
    pub learned: Option<BootInstant>,
    /// By the stated quotas.
    pub stated: Option<Turn>,
}

/// A permit, as the limits of its host count it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted<'a> {
    pub(super) id: u64,
    pub(super) learn: Option<&'a LearnPolicy>,
    pub(super) lane: Option<&'a str>,
    pub(super) weight: u32,
}

impl<'a> Counted<'a> {
    pub(super) fn new(ask: &'a Ask, id: u64) -> Self {
        Self {
            id,
            learn: ask.policy.learn.as_ref(),
            lane: ask.quota_lane.as_deref(),
            weight: weight(ask),
        }
    }

    /// Returns whether limits are learned from the first request on.
    fn searches_upwards(&self) -> bool {
        self.learn.is_some_and(LearnPolicy::searches_upwards)
    }
}

impl HostLimits {
    /// Returns whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.learned.is_none() && self.quotas.is_none()
    }

    /// Returns what was learned.
    #[must_use]
    pub fn learned(&self) -> Option<&Learned> {
        self.learned.as_ref()
    }

    /// Returns the quotas that the host states.
    #[must_use]
    pub fn quotas(&self) -> Option<&Quotas> {
        self.quotas.as_ref()
    }

    /// Returns when a request may go that has so many waiting requests of its site before it.
    #[must_use]
    pub fn turn(&self, ask: &Ask, waiting: u32, now: BootInstant) -> LimitTurn {
        LimitTurn {
            learned: self.learned_instant(ask, waiting, now),
            stated: self.quota_turn(ask, waiting, now),
        }
    }

    /// Returns whether a request waits for the answer to another one, by what was learned. Its turn
    /// is then when to ask again, and moves with `now`.
    #[must_use]
    pub fn waits_for_answer(&self, ask: &Ask, now: BootInstant) -> bool {
        let learned = self.learned.as_ref().zip(ask.policy.learn.as_ref());
        learned.is_some_and(|(learned, policy)| learned.awaits_answer(policy, now))
    }

    /// Returns when a request may go by what was learned.
    pub(super) fn learned_instant(
        &self,
        ask: &Ask,
        waiting: u32,
        now: BootInstant,
    ) -> Option<BootInstant> {
        let learned = self.learned.as_ref()?;
        Some(learned.next(ask.policy.learn.as_ref()?, earlier(ask, waiting), now))
    }

    /// Returns when a request may go by the stated quotas.
    pub(super) fn quota_turn(&self, ask: &Ask, waiting: u32, now: BootInstant) -> Option<Turn> {
        let (quotas, lane) = (self.quotas.as_ref()?, ask.quota_lane.as_deref()?);
        let need = Need {
            earlier: earlier(ask, waiting),
            backlog: ask.backlog,
            weight: weight(ask),
            windows: ask.costs.first().map(|cost| &*cost.windows),
        };
        quotas.turn(lane, need, now)
    }

    /// Returns the learned limit that holds requests back, as a window.
    #[must_use]
    pub fn learned_window(&self) -> Option<Window> {
        self.learned.as_ref().map(Learned::window)
    }

    /// Returns how long nothing is sent after a refusal, by what was learned.
    #[must_use]
    pub fn throttle_wait(&self, ask: &Ask, now: BootInstant) -> Option<Duration> {
        ask.policy.learn?;
        let learned = self.learned.as_ref()?;
        Some(learned.not_before(now).since(now))
    }

    /// Returns whether the answer to a request that goes now would teach anything.
    #[must_use]
    pub fn is_taught_by(&self, ask: &Ask) -> bool {
        ask.policy.learn.is_some() && (self.learned.is_some() || ask.searches_upwards())
    }

    /// Returns whether a permit is counted that was not settled yet.
    #[must_use]
    pub fn counts(&self, ask: &Ask, id: u64) -> bool {
        let quotas = self.quotas.as_ref();
        self.awaits_answer(id)
            || quotas
                .zip(ask.quota_lane.as_deref())
                .is_some_and(|(quotas, lane)| quotas.is_in_flight(lane, id))
    }

    /// Returns whether the headers of the answer to a request would teach something.
    #[must_use]
    pub fn awaits_headers(&self, id: u64) -> bool {
        let learned = self.learned.as_ref();
        learned.is_some_and(|own| own.awaits_headers(id))
    }

    /// Returns whether the answer to a request teaches something, be it a good one.
    #[must_use]
    pub fn awaits_answer(&self, id: u64) -> bool {
        self.learned.as_ref().is_some_and(|own| own.is_flying(id))
    }

    /// Applies the passage of time: gives up requests whose answers are overdue, applies resets, and
    /// forgets what is old.
    pub fn advance(&mut self, now: BootInstant) {
        if let Some(learned) = &mut self.learned {
            learned.expire(now);
        }
        self.learned.take_if(|learned| learned.is_over(now));
        if let Some(quotas) = &mut self.quotas {
            quotas.advance(now);
        }
        self.quotas.take_if(|quotas| quotas.is_over(now));
    }

    /// Counts a permit; returns whether its answer teaches anything.
    pub(super) fn permitted(&mut self, permit: Counted<'_>, now: BootInstant) -> bool {
        if let (Some(quotas), Some(lane)) = (&mut self.quotas, permit.lane) {
            quotas.spend(lane, permit.id, permit.weight, now);
        }
        let Some(policy) = permit.learn else {
            return false;
        };
        if permit.searches_upwards() {
            self.learned
                .get_or_insert_with(|| Learned::from_nothing(now));
        }
        let Some(learned) = &mut self.learned else {
            return false;
        };
        learned.sent(policy, permit.id, now);
        true
    }

    /// Takes in the headers of an answer whose body is still to come. Refusals are taken in when the
    /// attempt is settled.
    pub(super) fn heard(&mut self, id: u64, outcome: Outcome, now: BootInstant) -> Taught {
        let answer = match outcome {
            Outcome::Success => Answer::Served,
            Outcome::Neutral => Answer::Neutral,
            Outcome::Failure | Outcome::Throttled => return Taught::default(),
        };
        let learned = self.learned.as_mut();
        learned.map_or_else(Taught::default, |learned| learned.heard(id, answer, now))
    }

    /// Takes in an answer. A first refusal starts to learn from the requests that were sent before.
    pub fn answered(
        &mut self,
        answered: &Answered,
        history: impl Iterator<Item = BootInstant>,
        now: BootInstant,
    ) -> Option<Confirmed> {
        let answer = match answered.outcome {
            Outcome::Success => Answer::Served,
            Outcome::Neutral => Answer::Neutral,
            Outcome::Failure if answered.maybe_refused => Answer::Unavailable,
            Outcome::Failure => Answer::Other,
            Outcome::Throttled => Answer::Throttled {
                retry_after: answered.retry_after.map(|asked| now + asked),
            },
        };
        if answered.outcome == Outcome::Throttled {
            self.learned
                .get_or_insert_with(|| Learned::from_history(history, now));
        }
        let permit = (answered.id, answered.permitted);
        let learned = self.learned.as_mut()?;
        learned.answered(permit, answer, answered.jitter_sample, now)
    }

    /// Gives up a request: one that was not sent, or one without an answer.
    pub(super) fn left(&mut self, id: u64, spent_at: Option<BootInstant>, lane: Option<&str>) {
        if let Some(learned) = &mut self.learned {
            match spent_at {
                // A permit has no time of its own here: its instant is the latest that is known.
                Some(at) => learned.withdrawn(id, at),
                None => learned.dropped(id),
            }
        }
        if let (Some(quotas), Some(lane), Some(_)) = (&mut self.quotas, lane, spent_at) {
            quotas.take_back(lane, id);
        }
    }

    /// Takes in what the headers of the answer to a request state, which was permitted under an id
    /// at an instant.
    pub(super) fn state(
        &mut self,
        lane: &str,
        permit: (u64, BootInstant),
        statement: &Statement,
        now: BootInstant,
    ) -> Heard {
        let quotas = self.quotas.get_or_insert_default();
        let heard = quotas.state(lane, permit, statement, now);
        if let Some(learned) = self.learned.as_mut()
            && statement.is_spent_kind
            && heard.holds
        {
            // It was refused for a reason that is known: other limits neither admitted nor refused it.
            learned.dropped(permit.0);
        }
        heard
    }

    /// Ends the pause after refusals, on an operator's word.
    pub(super) fn end_pause(&mut self) {
        if let Some(learned) = &mut self.learned {
            learned.end_pause();
        }
    }

    /// Moves every instant to the clock of the current boot of the machine.
    pub(super) fn rebase(&mut self, shift: &dyn Fn(BootInstant) -> BootInstant) {
        if let Some(learned) = &mut self.learned {
            learned.rebase(shift);
        }
        if let Some(quotas) = &mut self.quotas {
            quotas.rebase(shift);
        }
    }

    /// Writes it into the extensions of a site.
    pub fn write_to(&self, extensions: &mut Extensions) {
        let learned = self.learned.as_ref();
        let bytes = learned.and_then(|learned| postcard::to_allocvec(learned).ok());
        extensions.set(LEARNED, bytes);
        let quotas = self.quotas.as_ref();
        let bytes = quotas.and_then(|quotas| postcard::to_allocvec(quotas).ok());
        extensions.set(QUOTAS, bytes);
    }

    /// Takes it out of the extensions of a site. What cannot be read is forgotten: it is learned
    /// again.
    #[must_use]
    pub fn take_from(extensions: &mut Extensions) -> Self {
        let learned = extensions.get(LEARNED).map(postcard::from_bytes);
        let quotas = extensions.get(QUOTAS).map(postcard::from_bytes);
        let own = Self {
            learned: learned.and_then(Result::ok),
            quotas: quotas.and_then(Result::ok),
        };
        for tag in [LEARNED, QUOTAS].into_iter().chain(OUTDATED) {
            extensions.set(tag, None);
        }
        own
    }
}

/// Returns how many requests come before one: those that wait at the site, and those of its own
/// queue.
fn earlier(ask: &Ask, waiting: u32) -> u32 {
    waiting.saturating_add(ask.queue_position.ahead().unwrap_or(0))
}

/// Returns what a request weighs in stated quotas: more than one, if it or the configuration says
/// so.
fn weight(ask: &Ask) -> u32 {
    let weights = ask.costs.iter().map(|cost| cost.weight);
    match weights.max().unwrap_or(0) {
        1 => ask.credits,
        weight => weight,
    }
}

impl Answered {
    /// Describes the answer to a permitted request.
    #[must_use]
    pub fn new(ask: &Ask, permit: &Permit, report: &Report) -> Self {
        let cap = ask.policy.breaker.retry_after_cap;
        Self {
            id: permit.id,
            permitted: permit.stamp,
            outcome: report.outcome,
            maybe_refused: report.maybe_refused,
            retry_after: report.retry_after.map(|asked| asked.min(cap)),
            jitter_sample: ask.jitter_sample,
        }
    }
}
