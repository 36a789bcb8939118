//! The model of a host's own limits: those learned from its refusals, and those that its headers
//! declare.
//!
//! [`HostModel::next`] returns when a request may be sent. The model changes only by events with an
//! instant ([`HostModel::apply`]). No clock, configuration or other host has an influence. A site
//! applies events as they happen. A store that cannot run these functions beside its data records
//! the events, and every process applies the records in order.
//!
//! - [`learned`]: limits inferred from refusals, and the requests in flight.
//! - [`learner`]: the inference itself, in a state of fixed size.
//! - [`quotas`]: the limits that rate headers declare, by role or kind of request.
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

/// The tag of learned limits among the [`Extensions`]. A new layout takes a new tag, so that data
/// of an older layout is dropped.
const LEARNED_TAG: u8 = 8;
/// The tag of declared quotas among the [`Extensions`].
const QUOTAS_TAG: u8 = 7;
/// The tags of earlier layouts, which are removed.
const OUTDATED_TAGS: [u8; 5] = [1, 2, 4, 5, 6];

/// The model of a host's own limits: learned limits and declared quotas.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostModel {
    learned: Option<LearnedLimits>,
    quotas: Option<Quotas>,
}

/// The query of one request to [`HostModel::next`].
#[derive(Clone, Copy, Debug)]
pub struct LimitQuery<'a> {
    /// The [`LearnPolicy`] by which limits are learned; `None` if learned limits do not delay the
    /// request.
    pub learn: Option<&'a LearnPolicy>,
    /// The name under which the quotas of the request are kept; `None` if rate headers are ignored.
    pub lane: Option<&'a str>,
    /// The needs of the request, for declared quotas.
    pub need: QuotaNeed<'a>,
    /// The latest instant until which the request waits for even pacing. If pacing would take
    /// longer, the request goes as soon as the quota allows.
    pub latest: BootInstant,
}

/// The instant at which a request may be sent, and the limit that delays it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitFit {
    /// The first instant at which the request may be sent.
    pub at: BootInstant,
    /// The limit as a [`Window`], if there is a limit to show.
    pub because: Option<Window>,
}

/// The instants at which a request may be sent according to each kind of limit; `None` if that kind
/// is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitInstants {
    /// The instant that learned limits allow. A probe of the breaker ignores it.
    pub learned: Option<BootInstant>,
    /// The [`QuotaInstants`] that declared quotas allow.
    pub stated: Option<QuotaInstants>,
}

impl HostModel {
    /// Returns whether no limit of the host is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.learned.is_none() && self.quotas.is_none()
    }

    /// Returns whether all learned limits and quotas have expired.
    #[must_use]
    pub fn is_over(&self, now: BootInstant) -> bool {
        self.learned().is_none_or(|learned| learned.is_over(now))
            && self.quotas().is_none_or(|quotas| quotas.is_over(now))
    }

    /// Returns the [`LearnedLimits`] from refusals, if any.
    #[must_use]
    pub fn learned(&self) -> Option<&LearnedLimits> {
        self.learned.as_ref()
    }

    /// Returns the [`Quotas`] that the host declares, if any.
    #[must_use]
    pub fn quotas(&self) -> Option<&Quotas> {
        self.quotas.as_ref()
    }

    /// Returns when a request may be sent, and the limit that delays it; `None` if no limit is
    /// known.
    ///
    /// Even pacing of a quota refuses no request. A request that would miss its latest instant goes
    /// while the quota allows it.
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

    /// Returns when a request may be sent according to each kind of limit.
    fn instants(&self, query: &LimitQuery<'_>, now: BootInstant) -> LimitInstants {
        let learned = self.learned.as_ref().zip(query.learn);
        let quotas = self.quotas.as_ref().zip(query.lane);
        LimitInstants {
            learned: learned.map(|(own, policy)| own.next(policy, query.need.earlier, now)),
            stated: quotas.and_then(|(quotas, lane)| quotas.next(lane, query.need, now)),
        }
    }

    /// Returns the tightest learned limit, as a [`Window`].
    #[must_use]
    pub fn learned_window(&self) -> Option<Window> {
        self.learned.as_ref().map(LearnedLimits::window)
    }

    /// Returns the remaining pause after refusals; `None` if no limit was learned.
    #[must_use]
    pub fn pause(&self, now: BootInstant) -> Option<Duration> {
        let learned = self.learned.as_ref()?;
        Some(learned.not_before(now).since(now))
    }

    /// Applies a [`LimitEvent`] that happened at `now`. `history` lists the requests that were sent
    /// before a first refusal.
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
                // A quota may reset before the permit is counted.
                self.advance(now);
                // A store whose reply was lost may permit one request twice, but the request is
                // sent once.
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

    /// Applies the passage of time: drops requests whose responses are overdue, applies resets, and
    /// removes expired limits.
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

    /// Records a request that is sent now. Returns whether its response teaches a limit.
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

    /// Learns from the headers of a response whose body is not complete. Refusals take effect when
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

    /// Learns from the result of a [`SettledRequest`]. A first refusal starts a learner with the
    /// requests that were sent before.
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

    /// Drops a request that was not sent, or that has no response.
    fn leave(&mut self, id: u64, spent_at: Option<BootInstant>, lane: Option<&str>) {
        if let Some(learned) = &mut self.learned {
            match spent_at {
                // The instant of the permit is the latest instant that is known here.
                Some(at) => learned.withdrawn(id, at),
                None => learned.dropped(id),
            }
        }
        if let (Some(quotas), Some(lane), Some(_)) = (&mut self.quotas, lane, spent_at) {
            quotas.take_back(lane, id);
        }
    }

    /// Applies the quotas that a response declares. `permit` is the id and the instant of the
    /// permit of its request.
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
            // A known quota refused the request, so other limits learn nothing from the refusal.
            learned.dropped(permit.0);
        }
        effect
    }

    /// Moves every instant to the clock of the current boot.
    pub fn rebase(&mut self, shift: &dyn Fn(BootInstant) -> BootInstant) {
        if let Some(learned) = &mut self.learned {
            learned.rebase(shift);
        }
        if let Some(quotas) = &mut self.quotas {
            quotas.rebase(shift);
        }
    }

    /// Writes the model into the [`Extensions`] of a site.
    pub fn write_to(&self, extensions: &mut Extensions) {
        let learned = self.learned.as_ref();
        let bytes = learned.and_then(|learned| postcard::to_allocvec(learned).ok());
        extensions.set(LEARNED_TAG, bytes);
        let quotas = self.quotas.as_ref();
        let bytes = quotas.and_then(|quotas| postcard::to_allocvec(quotas).ok());
        extensions.set(QUOTAS_TAG, bytes);
    }

    /// Moves the model out of the [`Extensions`] of a site. Unreadable data is dropped, and learned
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
