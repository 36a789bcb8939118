//! A budget: windows that all hold, the grants used, and the tickets of those who wait.
//!
//! The guarantee: in no interval of the length of a window are more weights granted than its limit, whatever the
//! arrival pattern. A ticket counts as used at its own instant, and from then on as used now, until it is confirmed or
//! dropped: so whoever holds a due ticket (asleep a little too long, waiting for a slot, dialling) still has its place.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::adaptive::{AdaptivePolicy, Adjustment, Tally};
use crate::rate::Window;
use crate::ring::{Coarse, EXACT_LIMIT, Ring};
use crate::time::BootInstant;
use crate::windows::{Multiplier, Windows};

mod history;

pub use history::History;

/// An hour, in microseconds.
const HOUR: u64 = 3_600_000_000;
/// A turn, in microseconds: timers are no finer.
const TURN: u64 = 1_000;
/// How many of the latest waits are remembered for people.
const WAITS: usize = 8;
/// An adaptive rate that nobody has watched for so long belongs to a run that is over.
const FORGET_RATE: Duration = Duration::from_secs(600);

/// A place held by somebody who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Ticket {
    id: u64,
    at: BootInstant,
    weight: u32,
    expires: BootInstant,
    standing: Holding,
}

/// What becomes of a ticket whose time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Holding {
    /// Its holder is gone: the place is free.
    Waiting,
    /// Its request has left: it counts as used at that instant.
    Sent,
}

/// A slot that is shared through the store, and who holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SlotLease {
    id: u64,
    expires: BootInstant,
}

/// A wait that ended, for people who ask why it is slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// When it ended.
    pub at: BootInstant,
    /// How long it was.
    pub length: Duration,
}

/// A change of a budget's history. A store that others read writes these down, and not the history anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// So much was used at an instant.
    Spent {
        /// How much.
        weight: u32,
        /// When.
        at: BootInstant,
    },
    /// So much that was spent at an instant was not used.
    TakenBack {
        /// How much.
        weight: u32,
        /// When it was spent.
        at: BootInstant,
    },
}

/// The shared state of a budget. Its history (ring and buckets) is written by its own ways: see [`Change`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Budget {
    #[serde(skip)]
    ring: Ring,
    /// How many exact grants the windows of all processes ask to remember.
    keep: u32,
    coarse: Vec<Coarse>,
    /// The windows for which that was last made sure, in this process.
    #[serde(skip)]
    remembered: u64,
    /// How far back those look, in hours, rounded up: a budget that is not used has to be small.
    #[serde(skip)]
    reach: u16,
    tickets: Vec<Ticket>,
    slots: Vec<SlotLease>,
    multiplier: Multiplier,
    tally: Option<Box<Tally>>,
    #[expect(clippy::box_collection, reason = "one word in each of very many budgets, most of which never have it")]
    waits: Option<Box<Vec<Wait>>>,
    #[serde(skip)]
    #[expect(clippy::box_collection, reason = "as above")]
    journal: Option<Box<Vec<Change>>>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            ring: Ring::default(),
            keep: 0,
            coarse: Vec::new(),
            remembered: 0,
            reach: 0,
            tickets: Vec::new(),
            slots: Vec::new(),
            multiplier: Multiplier::FULL,
            tally: None,
            waits: None,
            journal: None,
        }
    }
}

/// The first instant that fits, and the window that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Not before this.
    pub at: BootInstant,
    /// The window that asks for the longest wait, if any does.
    pub because: Option<Window>,
}

impl Budget {
    /// Tells whether there is nothing to look at but grants, at the full rate.
    #[inline]
    #[must_use]
    pub(crate) fn is_plain(&self) -> bool {
        self.tickets.is_empty() && self.multiplier == Multiplier::FULL
    }

    /// Finds the first instant that fits where there are only grants: each window looks so many back, the latest answer
    /// holds for all. Returns the place of the window that gave it.
    #[inline]
    pub(crate) fn plain_fit(&self, windows: &Windows, weight: u32, from: BootInstant) -> (BootInstant, Option<usize>) {
        let (mut at, mut latest) = (from, None);
        for (place, rule) in windows.rules().iter().enumerate() {
            let k = (rule.limit + 1).saturating_sub(weight);
            let grant = if rule.exact {
                self.ring.back(k)
            } else {
                self.coarse.iter().find(|coarse| coarse.id() == rule.id).and_then(|coarse| coarse.back(k))
            };
            if let Some(grant) = grant {
                let free = grant.plus_micros(rule.width);
                if free > at {
                    (at, latest) = (free, Some(place));
                }
            }
        }
        (at, latest)
    }

    /// Finds the first instant from `from` on at which `weight` fits every window, behind `ahead` weights in line.
    ///
    /// Exact when nobody is ahead; with a line before it, and several windows, a lower bound. O(windows + tickets).
    #[inline]
    #[must_use]
    pub fn first_fit(&self, windows: &Windows, weight: u32, ahead: Option<u32>, from: BootInstant, now: BootInstant) -> Fit {
        if weight == 0 {
            return Fit { at: from, because: None };
        }
        if self.is_plain() && ahead.is_none() {
            let (at, place) = self.plain_fit(windows, weight, from);
            return Fit { at, because: place.map(|place| windows.list()[place]) };
        }
        self.first_fit_among(windows, weight, ahead, from, now)
    }

    /// Finds the first instant that fits between tickets, or behind a line.
    #[cold]
    fn first_fit_among(&self, windows: &Windows, weight: u32, ahead: Option<u32>, from: BootInstant, now: BootInstant) -> Fit {
        let mut fit = Fit { at: from, because: None };
        loop {
            let before = fit.at;
            for (window, width) in windows.in_force(self.multiplier) {
                // Behind a line each window is judged by itself: the answer is a lower bound, and asking on would add to it.
                let start = if ahead.is_none() { fit.at } else { from };
                let at = self.fit_window(window, width, weight, ahead.unwrap_or(0), start, now);
                if at > fit.at {
                    fit = Fit { at, because: Some(*window) };
                }
            }
            // One pass settles it unless a ticket stands in the way of an earlier window's answer.
            if fit.at == before || self.tickets.is_empty() || ahead.is_some() {
                return fit;
            }
        }
    }

    /// Returns the turn behind everybody who waits for one within `courtesy` of now, if somebody does.
    ///
    /// Where a window lets through several in a turn there are no turns: they would cost more of the rate than they are worth.
    pub(crate) fn turn_behind(&self, windows: &Windows, courtesy: Duration, now: BootInstant) -> Option<Fit> {
        let near = |ticket: &&Ticket| ticket.standing == Holding::Waiting && ticket.at <= now + courtesy && ticket.at + courtesy > now;
        let last = self.tickets.iter().rev().find(near)?;
        let is_slow = |(window, width): (&Window, u64)| width >= 4 * TURN * u64::from(window.limit.get());
        let because = windows.list().first().filter(|_| windows.in_force(self.multiplier).all(is_slow))?;
        Some(Fit { at: last.at.max(now).plus_micros(TURN), because: Some(*because) })
    }

    #[inline]
    fn fit_window(&self, window: &Window, width: u64, weight: u32, ahead: u32, from: BootInstant, now: BootInstant) -> BootInstant {
        // The last of the `ahead + weight` units comes `turns` whole windows after the unit that has its place in the first.
        let last = ahead.saturating_add(weight).saturating_sub(1);
        // Divisions are slow, and almost always the first window has room for all.
        let limit = window.limit.get();
        let (turns, rest) = if last < limit { (0, last) } else { (last / limit, last % limit) };
        let k = limit - rest;
        let mut at = from;
        loop {
            let before = self.back_at(window, k, at, now).map_or(at, |grant| at.max(grant.plus_micros(width)));
            if before > at {
                at = before;
                continue;
            }
            // A ticket later than this instant must still fit after it: if not, the turn is behind that ticket.
            let crowded = self.tickets.iter().map(|ticket| ticket.at).find(|later| {
                *later > at
                    && *later < at.plus_micros(width)
                    && self.back_at(window, k, *later, now).is_some_and(|grant| grant.plus_micros(width) > *later)
            });
            match crowded {
                Some(later) => at = later,
                None => return at.plus_micros(width * u64::from(turns)),
            }
        }
    }

    /// Returns the instant of the `k`-th latest unit at or before `at`: tickets first, since none is earlier than now.
    #[inline]
    fn back_at(&self, window: &Window, mut k: u32, at: BootInstant, now: BootInstant) -> Option<BootInstant> {
        for ticket in self.tickets.iter().rev().filter(|ticket| ticket.at <= at) {
            if k <= ticket.weight {
                return Some(ticket.at.max(now));
            }
            k -= ticket.weight;
        }
        self.used_back(window, k)
    }

    /// Returns the instant of the `k`-th latest grant that `window` remembers.
    #[inline]
    fn used_back(&self, window: &Window, k: u32) -> Option<BootInstant> {
        if window.limit.get() <= EXACT_LIMIT { self.ring.back(k) } else { self.coarse_of(window)?.back(k) }
    }

    #[inline]
    fn coarse_of(&self, window: &Window) -> Option<&Coarse> {
        self.coarse.iter().find(|coarse| coarse.window() == *window)
    }

    /// Makes sure that the history reaches back as far as these windows look.
    #[inline]
    pub(crate) fn remember(&mut self, windows: &Windows) {
        if self.remembered == windows.signature {
            return;
        }
        self.remembered = windows.signature;
        let hours = |width: u64| u16::try_from(width.div_ceil(HOUR)).unwrap_or(u16::MAX);
        self.reach = windows.rules().iter().map(|rule| hours(rule.width)).fold(self.reach, u16::max);
        self.keep = self.keep.max(windows.keep);
        if windows.has_coarse {
            for (window, width) in windows.in_force(Multiplier::FULL).filter(|(window, _)| window.limit.get() > EXACT_LIMIT) {
                if let Some(coarse) = self.coarse.iter_mut().find(|coarse| coarse.window() == *window) {
                    coarse.widen(width);
                } else {
                    self.coarse.reserve_exact(1);
                    self.coarse.push(Coarse::new(*window, width));
                }
            }
        }
    }

    /// Tells whether the history reaches back as far as these windows look.
    #[inline]
    pub(crate) fn remembers(&self, windows: &Windows) -> bool {
        self.remembered == windows.signature
    }

    /// Tells whether nobody asks to remember anything.
    #[inline]
    fn is_boundless(&self) -> bool {
        self.keep == 0 && self.coarse.is_empty()
    }

    /// Remembers that `weight` was used at `now`.
    #[inline]
    pub fn spend(&mut self, weight: u32, now: BootInstant) {
        if weight == 0 || self.is_boundless() {
            return;
        }
        self.ring.push(now, weight, self.keep);
        for coarse in &mut self.coarse {
            coarse.push(now, weight);
        }
        if let Some(journal) = &mut self.journal {
            journal.push(Change::Spent { weight, at: now });
        }
    }

    /// Takes back `weight` that was spent at `at` and never used.
    pub fn take_back(&mut self, weight: u32, at: BootInstant) {
        if self.is_boundless() {
            return;
        }
        self.ring.take_back(at, weight);
        for coarse in &mut self.coarse {
            coarse.take_back(at, weight);
        }
        if let Some(journal) = &mut self.journal {
            journal.push(Change::TakenBack { weight, at });
        }
    }

    /// Holds a place at `at` under the name `id`, until `expires` at the latest.
    pub fn hold(&mut self, id: u64, at: BootInstant, weight: u32, expires: BootInstant) {
        if weight == 0 {
            return;
        }
        let place = self.tickets.partition_point(|ticket| ticket.at <= at);
        self.tickets.insert(place, Ticket { id, at, weight, expires, standing: Holding::Waiting });
    }

    /// Gives up the place held under `id`, and returns whether there was one.
    pub fn release(&mut self, id: u64) -> bool {
        let before = self.tickets.len();
        self.tickets.retain(|ticket| ticket.id != id);
        self.tickets.len() < before
    }

    /// Notes that the request behind a ticket has left: it counts as used now until `until` at the latest, and then.
    pub fn sent(&mut self, id: u64, until: BootInstant) {
        for ticket in self.tickets.iter_mut().filter(|ticket| ticket.id == id) {
            (ticket.standing, ticket.expires) = (Holding::Sent, until);
        }
    }

    /// Ends the tickets whose time is over: those of dead holders are dropped, those of sent requests become grants.
    #[inline]
    pub fn expire(&mut self, now: BootInstant) {
        while let Some(place) = self.tickets.iter().position(|ticket| ticket.expires <= now) {
            let ticket = self.tickets.remove(place);
            if ticket.standing == Holding::Sent {
                self.spend(ticket.weight, ticket.expires);
            }
        }
        self.slots.retain(|slot| slot.expires > now);
        if self.multiplier != Multiplier::FULL && self.tally.as_ref().is_none_or(|tally| tally.is_stale(FORGET_RATE, now)) {
            (self.multiplier, self.tally) = (Multiplier::FULL, None);
        }
    }

    /// Tells whether a shared slot is free, or held by `id` already.
    #[must_use]
    pub fn has_slot(&self, most: u32, id: Option<u64>) -> bool {
        self.slots.len() < most as usize || id.is_some_and(|id| self.slots.iter().any(|slot| slot.id == id))
    }

    /// Takes a shared slot for `id`, or prolongs the one it has.
    pub fn take_slot(&mut self, id: u64, expires: BootInstant) {
        match self.slots.iter_mut().find(|slot| slot.id == id) {
            Some(slot) => slot.expires = expires,
            None => self.slots.push(SlotLease { id, expires }),
        }
    }

    /// Gives up the shared slot of `id`, and returns whether there was one.
    pub fn free_slot(&mut self, id: u64) -> bool {
        let before = self.slots.len();
        self.slots.retain(|slot| slot.id != id);
        self.slots.len() < before
    }

    /// Prolongs the shared slots of `ids`.
    pub fn renew(&mut self, ids: &[u64], expires: BootInstant) {
        for slot in self.slots.iter_mut().filter(|slot| ids.contains(&slot.id)) {
            slot.expires = slot.expires.max(expires);
        }
    }

    /// Returns how many shared slots are held at `now`.
    #[must_use]
    pub fn slots_held(&self, now: BootInstant) -> usize {
        self.slots.iter().filter(|slot| slot.expires > now).count()
    }

    /// Returns the places held by those who wait, with their instants.
    pub fn tickets(&self) -> impl Iterator<Item = BootInstant> {
        self.tickets.iter().map(|ticket| ticket.at)
    }

    /// Notes a wait that has ended.
    pub fn note_wait(&mut self, wait: Wait) {
        let waits = self.waits.get_or_insert_default();
        if waits.len() >= WAITS {
            waits.remove(0);
        }
        waits.push(wait);
    }

    /// Returns the latest waits, oldest first.
    #[must_use]
    pub fn waits(&self) -> &[Wait] {
        self.waits.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Returns the multiplier in force.
    #[must_use]
    pub fn multiplier(&self) -> Multiplier {
        self.multiplier
    }

    /// Takes in an answer for the adaptive rate; the history stays whatever the multiplier becomes.
    pub fn observe(&mut self, policy: &AdaptivePolicy, throttled: bool, now: BootInstant) -> Option<Adjustment> {
        let adjustment = self.tally.get_or_insert_default().observe(policy, self.multiplier, throttled, now)?;
        self.multiplier = adjustment.new;
        Some(adjustment)
    }

    /// Returns how many weights count in `window` at `now`, those of tickets that are due included.
    #[must_use]
    pub fn used(&self, windows: &Windows, window: &Window, now: BootInstant) -> u64 {
        let width = windows.width(window, self.multiplier);
        let held: u64 = self.tickets.iter().filter(|ticket| ticket.at <= now).map(|ticket| u64::from(ticket.weight)).sum();
        let history = if window.limit.get() <= EXACT_LIMIT {
            self.ring.count_within(width, now) as u64
        } else {
            self.coarse_of(window).map_or(0, |coarse| coarse.count_within(width, now))
        };
        held + history
    }

    /// Tells whether nothing of this budget matters any more: every grant has left every window.
    #[must_use]
    pub fn is_idle(&self, now: BootInstant) -> bool {
        let latest = self.coarse.iter().filter_map(Coarse::latest).chain(self.ring.latest()).max();
        self.tickets.is_empty() && self.slots.is_empty() && latest.is_none_or(|latest| latest.plus_micros(u64::from(self.reach) * HOUR) <= now)
    }
}
