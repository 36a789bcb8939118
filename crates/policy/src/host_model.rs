//! The model of a host's own limits: what was learned from its refusals, and what its headers
//! declare.
//!
//! A [`HostModel`] answers one question, [`HostModel::next`]: when may this request go? It changes
//! by events alone ([`HostModel::apply`]), each at an instant, and depends on nothing else: no
//! clock, no configuration, no other host. A site applies the events as they happen. A store that
//! cannot run these functions where its state lies records them instead, and every process applies
//! the records in their order (`recorded`).
//!
//! - [`learned`]: limits inferred from refusals, and the requests that are on their way.
//! - [`learner`]: the inference itself, of fixed size.
//! - [`quotas`]: what rate headers leave for requests, by role or kind of request.
//!
//! The fields of headers are read in [`crate::rate_headers`].

use std::time::Duration;

use crate::classify::AttemptMeaning;
use crate::extension::Extensions;
use crate::rate::Window;
use crate::time::BootInstant;
use learned::{LearnEffect, LearnPolicy, LearnedLimits};
use learner::{ConfirmedLimit, HostResponse};
use quotas::{QuotaEffect, QuotaInstants, QuotaNeed, QuotaStatement, Quotas};

mod event;
pub mod learned;
pub mod learner;
pub mod quotas;

pub use event::{EventEffect, LimitEvent, SettledRequest};

/// The tag of what was learned among the extensions. A new layout takes a new tag: what is under an
/// older one is forgotten.
const LEARNED_TAG: u8 = 8;
/// The tag of declared quotas.
const QUOTAS_TAG: u8 = 7;
/// The tags of earlier layouts.
const OUTDATED_TAGS: [u8; 5] = [1, 2, 4, 5, 6];

/// The model of a host's own limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostModel {
    learned: Option<LearnedLimits>,
    quotas: Option<Quotas>,
}

/// A request that asks when it may go.
#[derive(Clone, Copy, Debug)]
pub struct LimitQuery<'a> {
    /// The way in which limits are learned; `None` where learned limits do not hold the request
    /// back.
    pub learn: Option<&'a LearnPolicy>,
    /// Under which name its quotas are kept; `None` where rate headers are ignored.
    pub lane: Option<&'a str>,
    /// Its needs of the quotas.
    pub need: QuotaNeed<'a>,
    /// The latest instant to which it waits for the sake of even distances. Later than that it goes
    /// as soon as anything is left.
    pub latest: BootInstant,
}

/// When a request may go, and which limit holds it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitFit {
    /// The first instant.
    pub at: BootInstant,
    /// The limit as a window, where there is one to show.
    pub because: Option<Window>,
}

/// When a request may go by what is known; `None` where that says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitInstants {
    /// By what was learned. A probe of the breaker does not obey it.
    pub learned: Option<BootInstant>,
    /// By the declared quotas.
    pub stated: Option<QuotaInstants>,
}

impl HostModel {
    /// Returns whether nothing is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.learned.is_none() && self.quotas.is_none()
    }

    /// Returns whether it has nothing to say any more.
    #[must_use]
    pub fn is_over(&self, now: BootInstant) -> bool {
        self.learned().is_none_or(|learned| learned.is_over(now))
            && self.quotas().is_none_or(|quotas| quotas.is_over(now))
    }

    /// Returns what was learned.
    #[must_use]
    pub fn learned(&self) -> Option<&LearnedLimits> {
        self.learned.as_ref()
    }

    /// Returns the quotas that the host declares.
    #[must_use]
    pub fn quotas(&self) -> Option<&Quotas> {
        self.quotas.as_ref()
    }

    /// Returns when a request may go, and what holds it back; `None` where nothing is known.
    ///
    /// The even pacing of a quota refuses no request: one that would be late goes while anything is
    /// left.
    #[must_use]
    pub fn next(&self, query: &LimitQuery<'_>, now: BootInstant) -> Option<LimitFit> {
        let LimitInstants { learned, stated } = self.instants(query, now);
        let learned = learned.map(|at| LimitFit {
            at,
            because: self.learned_window().filter(|_| at > now),
        });
        let stated = stated.map(|stated| LimitFit {
            at: if stated.paced > query.latest {
                stated.earliest
            } else {
                stated.paced
            },
            because: stated.window,
        });
        match (learned, stated) {
            (Some(learned), Some(stated)) if learned.at > stated.at => Some(learned),
            (learned, stated) => stated.or(learned),
        }
    }

    /// Returns when a request may go by each kind of limit.
    fn instants(&self, query: &LimitQuery<'_>, now: BootInstant) -> LimitInstants {
        let learned = self.learned.as_ref().zip(query.learn);
        let quotas = self.quotas.as_ref().zip(query.lane);
        LimitInstants {
            learned: learned.map(|(own, policy)| own.next(policy, query.need.earlier, now)),
            stated: quotas.and_then(|(quotas, lane)| quotas.next(lane, query.need, now)),
        }
    }

    /// Returns the learned limit that holds requests back, as a window.
    #[must_use]
    pub fn learned_window(&self) -> Option<Window> {
        self.learned.as_ref().map(LearnedLimits::window)
    }

    /// Returns for how long nothing is sent on account of refusals.
    #[must_use]
    pub fn pause(&self, now: BootInstant) -> Option<Duration> {
        let learned = self.learned.as_ref()?;
        Some(learned.not_before(now).since(now))
    }

    /// Applies an event of an instant. `history` lists the requests that were sent before a first
    /// refusal.
    pub fn apply(
        &mut self,
        event: &LimitEvent,
        history: impl Iterator<Item = BootInstant>,
        now: BootInstant,
    ) -> EventEffect {
        let mut effect = EventEffect::default();
        match event {
            LimitEvent::Permitted {
                id,
                learn,
                lane,
                weight,
            } => {
                // A site lets time pass before it permits a request.
                self.advance(now);
                // A store whose answer was lost may permit one twice: it is sent once.
                self.leave(*id, None, None);
                effect.teaches = self.permit(*id, learn.as_ref(), now);
                if let (Some(quotas), Some(lane)) = (&mut self.quotas, lane) {
                    quotas.spend(lane, *id, *weight, now);
                }
            }
            LimitEvent::Advanced => self.advance(now),
            LimitEvent::Heard { id, outcome } => {
                let taught = self.receive_headers(*id, *outcome, now);
                effect.calls_next = taught.calls_next;
                effect.confirmed = taught.confirmed;
            }
            LimitEvent::Answered(settled) => {
                effect.confirmed = self.settle(settled, history, now);
                effect.calls_next = self.learned.is_some();
            }
            LimitEvent::Left { id, spent_at, lane } => self.leave(*id, *spent_at, lane.as_deref()),
            LimitEvent::Stated {
                lane,
                id,
                permitted,
                statement,
            } => effect.heard = self.declare(lane, (*id, *permitted), statement, now),
            LimitEvent::PauseEnded => {
                if let Some(learned) = &mut self.learned {
                    learned.end_pause();
                }
            }
        }
        effect
    }

    /// Applies the passage of time: gives up requests whose answers are overdue, applies resets,
    /// and forgets what is old.
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

    /// Learns of a request that goes now; returns whether its answer teaches anything.
    fn permit(&mut self, id: u64, learn: Option<&LearnPolicy>, now: BootInstant) -> bool {
        let Some(policy) = learn else {
            return false;
        };
        if policy.searches_upwards() {
            self.learned
                .get_or_insert_with(|| LearnedLimits::from_nothing(now));
        }
        let Some(learned) = &mut self.learned else {
            return false;
        };
        learned.sent(policy, id, now);
        true
    }

    /// Takes in the headers of an answer whose body is still to come. Refusals are taken in when
    /// the attempt is settled.
    fn receive_headers(
        &mut self,
        id: u64,
        outcome: AttemptMeaning,
        now: BootInstant,
    ) -> LearnEffect {
        let response = match outcome {
            AttemptMeaning::Success => HostResponse::Served,
            AttemptMeaning::Neutral => HostResponse::Neutral,
            AttemptMeaning::Failure | AttemptMeaning::Throttled => return LearnEffect::default(),
        };
        let learned = self.learned.as_mut();
        learned.map_or_else(LearnEffect::default, |own| own.heard(id, response, now))
    }

    /// Takes in the result of a request. A first refusal starts to learn from the requests that
    /// were sent before.
    fn settle(
        &mut self,
        settled: &SettledRequest,
        history: impl Iterator<Item = BootInstant>,
        now: BootInstant,
    ) -> Option<ConfirmedLimit> {
        let response = match settled.outcome {
            AttemptMeaning::Success => HostResponse::Served,
            AttemptMeaning::Neutral => HostResponse::Neutral,
            AttemptMeaning::Failure if settled.maybe_refused => HostResponse::Unavailable,
            AttemptMeaning::Failure => HostResponse::Other,
            AttemptMeaning::Throttled => HostResponse::Throttled {
                retry_after: settled.retry_after.map(|asked| now + asked),
            },
        };
        if settled.outcome == AttemptMeaning::Throttled {
            self.learned
                .get_or_insert_with(|| LearnedLimits::from_history(history, now));
        }
        let permit = (settled.id, settled.permitted);
        let learned = self.learned.as_mut()?;
        learned.answered(permit, response, settled.jitter_sample, now)
    }

    /// Gives up a request: one that was not sent, or one without an answer.
    fn leave(&mut self, id: u64, spent_at: Option<BootInstant>, lane: Option<&str>) {
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

    /// Takes in what the headers of the answer to a request declare, which was permitted under an
    /// id at an instant.
    fn declare(
        &mut self,
        lane: &str,
        permit: (u64, BootInstant),
        statement: &QuotaStatement,
        now: BootInstant,
    ) -> QuotaEffect {
        let quotas = self.quotas.get_or_insert_default();
        let effect = quotas.declare(lane, permit, statement, now);
        if let Some(learned) = self.learned.as_mut()
            && statement.is_spent_kind
            && effect.holds
        {
            // It was refused for a reason that is known: other limits neither admitted nor refused
            // it.
            learned.dropped(permit.0);
        }
        effect
    }

    /// Moves every instant to the clock of the current boot of the machine.
    pub fn rebase(&mut self, shift: &dyn Fn(BootInstant) -> BootInstant) {
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
        extensions.set(LEARNED_TAG, bytes);
        let quotas = self.quotas.as_ref();
        let bytes = quotas.and_then(|quotas| postcard::to_allocvec(quotas).ok());
        extensions.set(QUOTAS_TAG, bytes);
    }

    /// Takes it out of the extensions of a site. What cannot be read is forgotten: it is learned
    /// again.
    #[must_use]
    pub fn take_from(extensions: &mut Extensions) -> Self {
        let learned = extensions.get(LEARNED_TAG).map(postcard::from_bytes);
        let quotas = extensions.get(QUOTAS_TAG).map(postcard::from_bytes);
        let own = Self {
            learned: learned.and_then(Result::ok),
            quotas: quotas.and_then(Result::ok),
        };
        for tag in [LEARNED_TAG, QUOTAS_TAG].into_iter().chain(OUTDATED_TAGS) {
            extensions.set(tag, None);
        }
        own
    }
}
