//! The limits of a host, as one process knows them.
//!
//! The server keeps a snapshot and the events since; the script appends events and hands out those
//! that a process lacks. Only the functions of `docstokg_policy` read them: every process applies the
//! same events in the same order, at the instants of the server, and so knows the same.

use docstokg_policy::site::{Applied, Ask, HostLimits, LimitEvent, LimitTurn};
use docstokg_policy::time::BootInstant;

use super::wire::{Lacking, LimitsPart};

mod sealed;

pub(super) use sealed::{seal_event, seal_limits};

/// For how many numbers of waiting requests the script learns when the next may go.
const TURNS: u32 = 6;
/// With so many events on the server a snapshot takes their place.
const MOST_EVENTS: u32 = 64;
/// The process whose event makes their number a multiple of this writes it: one of many, and another
/// one if that is gone.
const SNAPSHOT_EVERY: u32 = 8;
/// With an event of so many bytes, which holds the history of a budget, it is written at once.
const LARGE_EVENT: usize = 512;

/// What one process knows.
#[derive(Clone, Default)]
pub(super) struct KnownLimits {
    /// The version of the last event that is applied.
    pub(super) version: u64,
    pub(super) limits: HostLimits,
    /// Whether the server keeps anything.
    is_kept: bool,
    /// How many requests waited before the last one whose turn was not among those sent.
    waiting: u32,
    /// The last known instant of the server, and that of this process when it was known.
    seen: Option<(BootInstant, BootInstant)>,
}

/// What a reply added to what a process knows.
pub(super) struct Absorbed {
    pub(super) known: KnownLimits,
    /// What the event of the call did, if it was recorded: the last of all.
    pub(super) own: Applied,
    /// Whether a snapshot should take the place of the events.
    pub(super) wants_snapshot: bool,
}

impl KnownLimits {
    /// Returns the instant of the server at an instant of this process, as far as that is known.
    pub(super) fn server_now(&self, here: BootInstant) -> BootInstant {
        let seen = self.seen;
        seen.map_or(BootInstant::ZERO, |(server, then)| {
            server + here.since(then)
        })
    }

    /// Returns what a request says about the limits; `None` where there is nothing to say.
    pub(super) fn part_of(&self, ask: &Ask, id: u64, now: BootInstant) -> Option<Box<LimitsPart>> {
        if !self.is_kept && !ask.searches_upwards() {
            return None;
        }
        let mut limits = self.limits.clone();
        limits.advance(now);
        let advance = if limits == self.limits {
            Vec::new()
        } else {
            seal_event(&LimitEvent::Advanced)
        };
        let teaches = limits.is_taught_by(ask);
        let quotas = limits.quotas().zip(ask.quota_lane.as_deref());
        let is_counted = quotas.is_some_and(|(quotas, lane)| quotas.of(lane).is_some());
        let first = self.waiting.saturating_sub(TURNS / 2);
        let turn = |waiting: u32| limits.turn(ask, waiting, now);
        let says_nothing = turn(first) == LimitTurn::default();
        Some(Box::new(LimitsPart {
            version: self.version,
            forced: false,
            first,
            turns: if says_nothing {
                Vec::new()
            } else {
                (first..first + TURNS).map(turn).collect()
            },
            since: limits.waits_for_answer(ask, now).then_some(now),
            window: limits.learned_window(),
            teaches,
            permit: if teaches || is_counted {
                seal_event(&LimitEvent::permitted(ask, id))
            } else {
                Vec::new()
            },
            advance,
        }))
    }

    /// Adds what a reply of the server tells, to a call with an event of its own or an empty one.
    pub(super) fn absorb(
        &self,
        lacking: &Lacking<'_>,
        own_event: &[u8],
        seen: (BootInstant, BootInstant),
    ) -> Absorbed {
        let mut limits = lacking
            .snapshot
            .map_or_else(|| self.limits.clone(), sealed::open_limits);
        let (mut own, mut own_length) = (Applied::default(), None);
        for recorded in &lacking.events {
            if let Some((event, history)) = sealed::open_event(recorded.bytes) {
                let applied = limits.apply(&event, history, recorded.at);
                let is_own = recorded.version == lacking.version
                    && !own_event.is_empty()
                    && recorded.bytes.starts_with(own_event);
                if is_own {
                    (own, own_length) = (applied, Some(recorded.bytes.len()));
                }
            } else {
                // What cannot be read is learned again, by every process alike.
                limits = HostLimits::default();
            }
        }
        let is_due = lacking.kept >= MOST_EVENTS && lacking.kept.is_multiple_of(SNAPSHOT_EVERY);
        let is_turn = own_length.is_some_and(|length| is_due || length >= LARGE_EVENT);
        let is_over = lacking.is_kept && limits.is_empty();
        Absorbed {
            wants_snapshot: is_turn || is_over,
            known: Self {
                version: lacking.version,
                limits,
                is_kept: lacking.is_kept,
                waiting: self.waiting,
                seen: Some(seen),
            },
            own,
        }
    }

    /// Notes how many requests wait before one whose turn was not among those sent.
    pub(super) fn expect_waiting(&mut self, waiting: u32) {
        self.waiting = waiting;
    }
}
