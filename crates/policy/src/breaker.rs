//! The circuit breaker of a host or resolver: when it opens, whom it lets through, and what closes
//! it again.
//!
//! `Closed -> Open { until, reason } -> HalfOpen { leases }`, and beside it a block that a server
//! or an operator stated. To the outside a blocked host is open, with the reason of the block; when
//! a block ends the host is half-open. Time alone leads from open to half-open. A result counts
//! only in the era in which its request was let through: what was sent before an open or a block
//! began neither closes nor lengthens it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::classify::Outcome;
use crate::role::Role;
use crate::time::BootInstant;

mod policy;

pub use policy::{BreakerPolicy, RollingWindow};

/// How long the failures of a host that nobody asks for are remembered.
const FORGET: Duration = Duration::from_secs(3_600);

/// Why a breaker is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpenReason {
    /// So many failures in a row.
    Consecutive,
    /// So many failures within a time, successes between them or not.
    RollingWindow,
    /// The server said when to come back.
    RetryAfter,
    /// An operator said so; the text is theirs.
    Operator(Arc<str>),
    /// A probe of a half-open breaker failed.
    ProbeFailed,
    /// A throttling answer without Retry-After, where config sets a block for those.
    Throttled,
}

impl OpenReason {
    /// Reads what [`fmt::Display`] writes.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "consecutive" => Self::Consecutive,
            "rolling-window" => Self::RollingWindow,
            "retry-after" => Self::RetryAfter,
            "probe-failed" => Self::ProbeFailed,
            "throttled" => Self::Throttled,
            _ => Self::Operator(word.strip_prefix("cli-open:")?.into()),
        })
    }
}

impl fmt::Display for OpenReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Consecutive => "consecutive",
            Self::RollingWindow => "rolling-window",
            Self::RetryAfter => "retry-after",
            Self::Operator(text) => return write!(f, "cli-open:{text}"),
            Self::ProbeFailed => "probe-failed",
            Self::Throttled => "throttled",
        })
    }
}

/// The state of a breaker as the outside sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Everything passes.
    Closed,
    /// Nothing passes.
    Open,
    /// A few probes pass.
    HalfOpen,
}

impl State {
    /// Reads the word used in events and tables.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Closed, Self::Open, Self::HalfOpen]
            .into_iter()
            .find(|state| state.as_str() == word)
    }

    /// Returns the word used in events and tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// A change of state, for telemetry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Before.
    pub from: State,
    /// After.
    pub to: State,
    /// The failures in a row at that moment.
    pub fail_count: u32,
    /// How long an open lasts, for a change to open.
    pub reset: Option<Duration>,
    /// Why, for a change to open.
    pub reason: Option<OpenReason>,
}

/// What the breaker says to somebody who wants to pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Closed: pass.
    Permit,
    /// Half-open and a place is free: pass as a probe after up to `jitter`, holding the lease.
    Probe {
        /// The most that the probe is put off, so that probes of many processes do not come
        /// together.
        jitter: Duration,
    },
    /// Open, or half-open with all places taken.
    Refused {
        /// When it is worth asking again.
        until: BootInstant,
        /// Why it is open, or was.
        reason: OpenReason,
        /// Half-open: a probe is out and its verdict is awaited.
        probing: bool,
    },
}

/// A place of a probe. Released, settled or expired; never lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Lease {
    id: u64,
    role: Role,
    expires: BootInstant,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Block {
    until: BootInstant,
    reason: OpenReason,
}

/// What a breaker that is not plainly closed remembers.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Trip {
    /// The end of the inferred open; in the past once half-open.
    open_until: BootInstant,
    reason: OpenReason,
    block: Option<Block>,
    half_open: bool,
    leases: Vec<Lease>,
    /// Who opened it, for people.
    by: Option<Arc<str>>,
}

impl Trip {
    /// Starts an open, or a block.
    fn new(open_until: BootInstant, reason: OpenReason, block: Option<Block>) -> Self {
        Self {
            open_until,
            reason,
            block,
            half_open: false,
            leases: Vec::new(),
            by: None,
        }
    }

    fn until(&self) -> BootInstant {
        self.block
            .as_ref()
            .map_or(self.open_until, |block| block.until.max(self.open_until))
    }

    /// Returns the reason of whichever lasts longer, the block or the inferred open.
    fn reason(&self) -> &OpenReason {
        match &self.block {
            Some(block) if block.until >= self.open_until => &block.reason,
            _ => &self.reason,
        }
    }
}

/// The state of one breaker. One that has never failed is a few words; the rest is allocated when
/// it does.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Breaker {
    generation: u32,
    failures: u32,
    past: Option<Box<Past>>,
    trip: Option<Box<Trip>>,
}

/// What a breaker that has failed before remembers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Past {
    /// Opens in a row.
    opens: u32,
    /// How often in a row a server asked for more than the configured reset.
    outlasted: u32,
    learned_reset: Duration,
    closed_at: BootInstant,
    failed_at: BootInstant,
    throttled_at: BootInstant,
    recent: VecDeque<BootInstant>,
}

impl Breaker {
    /// Returns the era: it changes whenever an open or a block begins.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Tells whether it is anything but plainly closed.
    #[inline]
    #[must_use]
    pub fn has_tripped(&self) -> bool {
        self.trip.is_some()
    }

    /// Returns the failures in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns the state at `now`.
    #[must_use]
    pub fn state(&self, now: BootInstant) -> State {
        match &self.trip {
            None => State::Closed,
            Some(trip) if trip.until() > now => State::Open,
            Some(_) => State::HalfOpen,
        }
    }

    /// Returns until when and why it is open at `now`, if it is.
    #[must_use]
    pub fn open_until(&self, now: BootInstant) -> Option<(BootInstant, &OpenReason)> {
        let trip = self.trip.as_deref()?;
        (trip.until() > now).then(|| (trip.until(), trip.reason()))
    }

    /// Returns how many probes of `role` are out at `now`.
    #[must_use]
    pub fn leases(&self, role: Role, now: BootInstant) -> usize {
        let leases = self.trip.iter().flat_map(|trip| &trip.leases);
        leases
            .filter(|lease| lease.role == role && lease.expires > now)
            .count()
    }

    /// Tells whether nothing it remembers matters any more: closed without failures, or untouched
    /// for an hour.
    #[must_use]
    pub fn is_idle(&self, now: BootInstant) -> bool {
        match &self.trip {
            None => self
                .past
                .as_ref()
                .is_none_or(|past| past.failed_at + FORGET <= now),
            Some(trip) => trip.until() + FORGET <= now,
        }
    }

    /// Lets time do its part: an open whose end has come is half-open.
    #[inline]
    pub fn advance(&mut self, now: BootInstant) -> Option<Transition> {
        let trip = self.trip.as_deref_mut()?;
        if trip.half_open {
            trip.leases.retain(|lease| lease.expires > now);
            return None;
        }
        if trip.until() > now {
            return None;
        }
        trip.half_open = true;
        trip.block = None;
        Some(Transition {
            from: State::Open,
            to: State::HalfOpen,
            fail_count: self.failures,
            reset: None,
            reason: None,
        })
    }

    /// Says whether a request of `role` may pass at `now`. Nothing changes; [`Breaker::lease`]
    /// takes the probe's place.
    #[inline]
    #[must_use]
    pub fn admit(
        &self,
        policy: &BreakerPolicy,
        role: Role,
        held: Option<u64>,
        now: BootInstant,
    ) -> Admission {
        let Some(trip) = self.trip.as_deref() else {
            return Admission::Permit;
        };
        if trip.until() > now {
            return Admission::Refused {
                until: trip.until(),
                reason: trip.reason().clone(),
                probing: false,
            };
        }
        let mut out = trip
            .leases
            .iter()
            .filter(|lease| lease.role == role && lease.expires > now);
        if let Some(id) = held
            && out.clone().any(|lease| lease.id == id)
        {
            return Admission::Probe {
                jitter: Duration::ZERO,
            };
        }
        if out.clone().count() < policy.trial_calls[role.index()] as usize {
            return Admission::Probe {
                jitter: policy.jitter,
            };
        }
        let until = out.next().map_or(now + policy.reset, |lease| lease.expires);
        Admission::Refused {
            until,
            reason: trip.reason.clone(),
            probing: true,
        }
    }

    /// Returns a breaker without history that is under the same block, for a role that starts to
    /// count for itself.
    #[must_use]
    pub fn blocked_twin(&self) -> Self {
        let trip = self
            .trip
            .as_deref()
            .and_then(|trip| trip.block.as_ref())
            .map(|block| {
                let (until, reason) = (BootInstant::ZERO, block.reason.clone());
                Box::new(Trip::new(until, reason, Some(block.clone())))
            });
        Self {
            trip,
            ..Self::default()
        }
    }

    /// Takes a probe's place for `id`, or prolongs the one it has.
    pub fn lease(&mut self, id: u64, role: Role, expires: BootInstant) {
        if let Some(trip) = self.trip.as_deref_mut() {
            match trip.leases.iter_mut().find(|lease| lease.id == id) {
                Some(lease) => lease.expires = expires,
                None => trip.leases.push(Lease { id, role, expires }),
            }
        }
    }

    /// Prolongs the places held by `ids`.
    pub fn renew(&mut self, ids: &[u64], expires: BootInstant) {
        let leases = self.trip.iter_mut().flat_map(|trip| &mut trip.leases);
        for lease in leases.filter(|lease| ids.contains(&lease.id)) {
            lease.expires = lease.expires.max(expires);
        }
    }

    /// Writes down who opened it, unless somebody is named already.
    pub fn sign(&mut self, who: &Arc<str>) {
        if let Some(trip) = self.trip.as_deref_mut() {
            trip.by.get_or_insert_with(|| Arc::clone(who));
        }
    }

    /// Returns who opened it.
    #[must_use]
    pub fn opened_by(&self) -> Option<&Arc<str>> {
        self.trip.as_deref()?.by.as_ref()
    }

    /// Returns how many failures count towards a rolling window at `now`.
    #[must_use]
    pub fn recent_failures(&self, within: Duration, now: BootInstant) -> usize {
        self.past
            .iter()
            .flat_map(|past| &past.recent)
            .filter(|failure| **failure + within > now)
            .count()
    }

    /// Moves every instant to another clock.
    pub fn rebase(&mut self, shift: &dyn Fn(BootInstant) -> BootInstant) {
        if let Some(trip) = self.trip.as_deref_mut() {
            trip.open_until = shift(trip.open_until);
            if let Some(block) = &mut trip.block {
                block.until = shift(block.until);
            }
            trip.leases.clear();
        }
        if let Some(past) = self.past.as_deref_mut() {
            for instant in [
                &mut past.closed_at,
                &mut past.failed_at,
                &mut past.throttled_at,
            ]
            .into_iter()
            .chain(&mut past.recent)
            {
                *instant = shift(*instant);
            }
        }
    }

    /// Gives up the place held by `id`, and returns whether there was one.
    pub fn release(&mut self, id: u64) -> bool {
        let Some(trip) = self.trip.as_deref_mut() else {
            return false;
        };
        let before = trip.leases.len();
        trip.leases.retain(|lease| lease.id != id);
        trip.leases.len() < before
    }

    /// Takes in the outcome of a request that was let through in `generation` and sent at `sent`.
    ///
    /// A result of an older era changes nothing. Success and neutral answers both prove that the
    /// origin lives and close a half-open breaker; in a closed one a success clears the failures
    /// and a neutral answer leaves them.
    pub fn settle(
        &mut self,
        policy: &BreakerPolicy,
        outcome: Outcome,
        generation: u32,
        sent: BootInstant,
        now: BootInstant,
    ) -> Option<Transition> {
        if generation != self.generation {
            return None;
        }
        match outcome {
            Outcome::Success | Outcome::Neutral => {
                if outcome == Outcome::Success {
                    self.failures = 0;
                }
                self.trip.as_ref().filter(|trip| trip.half_open)?;
                Some(self.shut(now))
            }
            Outcome::Throttled
                if policy.one_failure_per_epoch
                    && self
                        .past
                        .as_ref()
                        .is_some_and(|past| sent < past.throttled_at) =>
            {
                None
            }
            Outcome::Failure | Outcome::Throttled => {
                if outcome == Outcome::Throttled {
                    self.past().throttled_at = now;
                }
                self.fail(policy, now)
            }
        }
    }

    fn past(&mut self) -> &mut Past {
        self.past.get_or_insert_default()
    }

    /// Closes it.
    fn shut(&mut self, now: BootInstant) -> Transition {
        self.trip = None;
        self.failures = 0;
        let past = self.past();
        past.recent.clear();
        past.closed_at = now;
        Transition {
            from: State::HalfOpen,
            to: State::Closed,
            fail_count: 0,
            reset: None,
            reason: None,
        }
    }

    fn fail(&mut self, policy: &BreakerPolicy, now: BootInstant) -> Option<Transition> {
        self.failures = self.failures.saturating_add(1);
        self.past().failed_at = now;
        if let Some(trip) = &self.trip {
            return if trip.half_open {
                Some(self.open(policy, OpenReason::ProbeFailed, None, now))
            } else {
                None
            };
        }
        if let Some(window) = policy.window {
            let threshold = window.threshold_failures.get() as usize;
            let recent = &mut self.past().recent;
            recent.push_back(now);
            while recent.len() > threshold
                || recent
                    .front()
                    .is_some_and(|first| *first + window.within <= now)
            {
                recent.pop_front();
            }
            if recent.len() >= threshold {
                return Some(self.open(
                    policy,
                    OpenReason::RollingWindow,
                    Some(window.cooldown),
                    now,
                ));
            }
        }
        (self.failures >= policy.fail_max.get())
            .then(|| self.open(policy, OpenReason::Consecutive, None, now))
    }

    fn open(
        &mut self,
        policy: &BreakerPolicy,
        reason: OpenReason,
        length: Option<Duration>,
        now: BootInstant,
    ) -> Transition {
        let (from, was_closed) = (self.state(now), self.trip.is_none());
        let past = self.past();
        if was_closed
            && past.opens > 0
            && past.closed_at + policy.reset_after(past.opens, past.learned_reset) <= now
        {
            past.opens = 0;
        }
        past.opens = past.opens.saturating_add(1);
        past.recent.clear();
        let reset = length.unwrap_or_else(|| policy.reset_after(past.opens, past.learned_reset));
        self.generation = self.generation.wrapping_add(1);
        self.trip = Some(Box::new(Trip::new(now + reset, reason.clone(), None)));
        Transition {
            from,
            to: State::Open,
            fail_count: self.failures,
            reset: Some(reset),
            reason: Some(reason),
        }
    }

    /// Blocks it until `until`: never shortens a block that is there.
    ///
    /// A new block begins an era; one that only lengthens a running open or block does not.
    pub fn block(
        &mut self,
        until: BootInstant,
        reason: OpenReason,
        now: BootInstant,
    ) -> Option<Transition> {
        if until <= now {
            return None;
        }
        let from = self.state(now);
        if from == State::Open
            && let Some(trip) = self.trip.as_deref_mut()
        {
            if trip.block.as_ref().is_none_or(|block| block.until < until) {
                trip.block = Some(Block { until, reason });
            }
            return None;
        }
        self.generation = self.generation.wrapping_add(1);
        let block = Some(Block {
            until,
            reason: reason.clone(),
        });
        self.trip = Some(Box::new(Trip::new(now, reason.clone(), block)));
        Some(Transition {
            from,
            to: State::Open,
            fail_count: self.failures,
            reset: Some(until.since(now)),
            reason: Some(reason),
        })
    }

    /// Notes how long a server asked to be left alone: asked twice in a row for more than the
    /// reset, the reset grows to it.
    pub fn learn(&mut self, policy: &BreakerPolicy, asked: Duration) {
        let past = self.past();
        if asked <= policy.reset {
            past.outlasted = 0;
            return;
        }
        past.outlasted = past.outlasted.saturating_add(1);
        if past.outlasted >= 2 {
            past.learned_reset = past.learned_reset.max(asked.min(policy.reset_ceiling));
        }
    }

    /// Goes on by so many eras.
    pub(crate) fn permit_generations(&mut self, generations: u32) {
        self.generation = self.generation.wrapping_add(generations);
    }

    /// Closes it on an operator's word: block, open and counts are gone.
    pub fn close(&mut self, now: BootInstant) -> Option<Transition> {
        let from = self.state(now);
        let generation = self
            .generation
            .wrapping_add(u32::from(from != State::Closed));
        *self = Self {
            generation,
            ..Self::default()
        };
        (from != State::Closed).then_some(Transition {
            from,
            to: State::Closed,
            fail_count: 0,
            reset: None,
            reason: None,
        })
    }
}
