//! A budget: windows that all hold, the permits used, and the reservations of requests that wait.
//!
//! The guarantee: in no interval of the length of a window are more weights permitted than its
//! limit, whatever the arrival pattern. What a request finds in its way is the history and a list
//! of counted uses to come: those of requests that are dialling, and of waiting requests with an
//! earlier position (see `site/order.rs`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::adaptive::{AdaptivePolicy, Adjustment, Tally};
use crate::extension::Extensions;
use crate::rate::Window;
use crate::ring::{Coarse, EXACT_LIMIT, Ring};
use crate::time::BootInstant;
use crate::windows::{Multiplier, Windows};

mod first_layout;
mod history;
mod reservation;

pub use first_layout::FirstLayout;
pub use history::History;
pub(crate) use reservation::{Reservation, Stage};

/// An hour, in microseconds.
const HOUR: u64 = 3_600_000_000;
/// The shortest turn, in microseconds: timers are hardly finer.
const SHORTEST_TURN: u64 = 2_000;
/// The longest turn, in microseconds: sleeps end late by about that much.
const LONGEST_TURN: u64 = 25_000;
/// How many of the latest waits are remembered for people.
const WAITS: usize = 8;
/// An adaptive rate that nobody has watched for so long belongs to a run that is over.
const FORGET_RATE: Duration = Duration::from_secs(600);

/// A use that is still to come: when it is expected, and how much it takes.
pub(crate) type Counted = (BootInstant, u32);

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

/// A change of a budget's history. A store that others read writes these down, and not the history
/// anew.
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

/// The shared state of a budget. Its history (ring and buckets) is written by its own ways: see
/// [`Change`].
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
    reservations: Vec<Reservation>,
    slots: Vec<SlotLease>,
    multiplier: Multiplier,
    tally: Option<Box<Tally>>,
    #[expect(
        clippy::box_collection,
        reason = "one word in each of very many budgets, most of which never have it"
    )]
    waits: Option<Box<Vec<Wait>>>,
    /// What later versions add.
    pub(crate) extensions: Extensions,
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
            reservations: Vec::new(),
            slots: Vec::new(),
            multiplier: Multiplier::FULL,
            tally: None,
            waits: None,
            extensions: Extensions::default(),
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
    /// Tells whether there is nothing to look at but the history, at the full rate.
    #[inline]
    #[must_use]
    pub(crate) fn is_plain(&self) -> bool {
        self.reservations.is_empty() && self.multiplier == Multiplier::FULL
    }

    /// Returns the reservations, in no order.
    #[inline]
    pub(crate) fn reservations(&self) -> &[Reservation] {
        &self.reservations
    }

    /// Finds the first instant that fits where there are only grants: each window looks so many
    /// back, the latest answer holds for all. Returns the place of the window that gave it.
    #[inline]
    pub(crate) fn plain_fit(
        &self,
        windows: &Windows,
        weight: u32,
        from: BootInstant,
    ) -> (BootInstant, Option<usize>) {
        let (mut at, mut latest) = (from, None);
        for (place, rule) in windows.rules().iter().enumerate() {
            let k = (rule.limit + 1).saturating_sub(weight);
            let grant = if rule.exact {
                self.ring.back(k)
            } else {
                self.coarse
                    .iter()
                    .find(|coarse| coarse.id() == rule.id)
                    .and_then(|coarse| coarse.back(k))
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

    /// Finds the first instant from `from` on at which `weight` fits every window beside what is
    /// counted, behind `ahead` weights in line. What is counted is sorted by instant, and none of
    /// it is earlier than now.
    ///
    /// Exact when nothing is ahead; with a queue before it, and several windows, a lower bound.
    /// O(windows x counted^2).
    #[inline]
    #[must_use]
    pub(crate) fn first_fit(
        &self,
        windows: &Windows,
        weight: u32,
        ahead: Option<u32>,
        counted: &[Counted],
        from: BootInstant,
    ) -> Fit {
        if weight == 0 {
            return Fit {
                at: from,
                because: None,
            };
        }
        if counted.is_empty() && self.multiplier == Multiplier::FULL && ahead.is_none() {
            let (at, place) = self.plain_fit(windows, weight, from);
            return Fit {
                at,
                because: place.map(|place| windows.list()[place]),
            };
        }
        self.first_fit_among(windows, weight, ahead, counted, from)
    }

    /// Finds the first instant that fits between counted uses, or behind a queue.
    #[cold]
    fn first_fit_among(
        &self,
        windows: &Windows,
        weight: u32,
        ahead: Option<u32>,
        counted: &[Counted],
        from: BootInstant,
    ) -> Fit {
        let mut fit = Fit {
            at: from,
            because: None,
        };
        loop {
            let before = fit.at;
            for (window, width) in windows.in_force(self.multiplier) {
                // Behind a queue each window is judged by itself: the answer is a lower bound, and
                // asking on would add to it.
                let start = if ahead.is_none() { fit.at } else { from };
                let at = self.fit_window(window, width, weight, ahead.unwrap_or(0), counted, start);
                if at > fit.at {
                    fit = Fit {
                        at,
                        because: Some(*window),
                    };
                }
            }
            // One pass settles it unless a counted use stands in the way of an earlier window's
            // answer.
            if fit.at == before || counted.is_empty() || ahead.is_some() {
                return fit;
            }
        }
    }

    /// Returns the turn behind the requests that are due, or will be within a turn, if there are
    /// any.
    ///
    /// A turn is a quarter of what a permit takes at the rate of the fastest window: a burst that
    /// is taken in turns is over in a quarter of a window, so nothing of the rate is lost. Where
    /// turns would be finer than timers there are none.
    pub(crate) fn turn_behind(&self, windows: &Windows, now: BootInstant) -> Option<Fit> {
        let of_window =
            |(window, width): (&Window, u64)| width / (4 * u64::from(window.limit.get()));
        let turn = windows
            .in_force(self.multiplier)
            .map(of_window)
            .min()
            .filter(|turn| *turn >= SHORTEST_TURN)?
            .min(LONGEST_TURN);
        let near = |held: &&Reservation| {
            held.is_waiting() && held.weight > 0 && held.at <= now.plus_micros(turn)
        };
        let last = self
            .reservations
            .iter()
            .filter(near)
            .max_by_key(|held| held.at)?;
        Some(Fit {
            at: last.at.max(now).plus_micros(turn),
            because: windows.list().first().copied(),
        })
    }

    #[inline]
    fn fit_window(
        &self,
        window: &Window,
        width: u64,
        weight: u32,
        ahead: u32,
        counted: &[Counted],
        from: BootInstant,
    ) -> BootInstant {
        // The last of the `ahead + weight` units comes `turns` whole windows after the unit that
        // has its place in the first.
        let last = ahead.saturating_add(weight).saturating_sub(1);
        // Divisions are slow, and almost always the first window has room for all.
        let limit = window.limit.get();
        let (turns, rest) = if last < limit {
            (0, last)
        } else {
            (last / limit, last % limit)
        };
        let k = limit - rest;
        let mut at = from;
        loop {
            let before = self
                .back_at(window, k, counted, at)
                .map_or(at, |used| at.max(used.plus_micros(width)));
            if before > at {
                at = before;
                continue;
            }
            // A counted use later than this instant must still fit after it: if not, the turn is
            // behind that use.
            let crowded = counted.iter().map(|(expected, _)| *expected).find(|later| {
                *later > at
                    && *later < at.plus_micros(width)
                    && self
                        .back_at(window, k, counted, *later)
                        .is_some_and(|used| used.plus_micros(width) > *later)
            });
            match crowded {
                Some(later) => at = later,
                None => return at.plus_micros(width * u64::from(turns)),
            }
        }
    }

    /// Returns the instant of the `k`-th latest unit at or before `at`: counted uses first, since
    /// none is earlier than now.
    #[inline]
    fn back_at(
        &self,
        window: &Window,
        mut k: u32,
        counted: &[Counted],
        at: BootInstant,
    ) -> Option<BootInstant> {
        for (expected, weight) in counted.iter().rev().filter(|(expected, _)| *expected <= at) {
            if k <= *weight {
                return Some(*expected);
            }
            k -= weight;
        }
        self.used_back(window, k)
    }

    /// Returns the instant of the `k`-th latest grant that `window` remembers.
    #[inline]
    fn used_back(&self, window: &Window, k: u32) -> Option<BootInstant> {
        if window.limit.get() <= EXACT_LIMIT {
            self.ring.back(k)
        } else {
            self.coarse_of(window)?.back(k)
        }
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
        self.reach = windows
            .rules()
            .iter()
            .map(|rule| hours(rule.width))
            .fold(self.reach, u16::max);
        self.keep = self.keep.max(windows.keep);
        if windows.has_coarse {
            for (window, width) in windows
                .in_force(Multiplier::FULL)
                .filter(|(window, _)| window.limit.get() > EXACT_LIMIT)
            {
                if let Some(coarse) = self
                    .coarse
                    .iter_mut()
                    .find(|coarse| coarse.window() == *window)
                {
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

    /// Makes a reservation, or moves the one that its holder has.
    pub(crate) fn reserve(&mut self, reservation: Reservation) {
        match self
            .reservations
            .iter_mut()
            .find(|held| held.id == reservation.id)
        {
            Some(held) => *held = reservation,
            None => self.reservations.push(reservation),
        }
    }

    /// Returns the reservation under which `id` waits.
    pub(crate) fn waiting(&self, id: u64) -> Option<&Reservation> {
        self.reservations
            .iter()
            .find(|held| held.id == id && held.is_waiting())
    }

    /// Gives up the reservation of `id`, and returns whether there was one.
    pub fn release(&mut self, id: u64) -> bool {
        let before = self.reservations.len();
        self.reservations.retain(|held| held.id != id);
        self.reservations.len() < before
    }

    /// Notes that the request behind a reservation has left: it counts as used now until `until` at
    /// the latest, and then.
    pub fn sent(&mut self, id: u64, until: BootInstant) {
        for held in self.reservations.iter_mut().filter(|held| held.id == id) {
            (held.stage, held.expires) = (Stage::Sent, until);
        }
    }

    /// Ends the reservations whose time is over: those of dead holders are dropped, those of sent
    /// requests are spent.
    #[inline]
    pub fn expire(&mut self, now: BootInstant) {
        while let Some(place) = self
            .reservations
            .iter()
            .position(|held| held.expires <= now)
        {
            let held = self.reservations.remove(place);
            if held.stage == Stage::Sent {
                self.spend(held.weight, held.expires);
            }
        }
        self.slots.retain(|slot| slot.expires > now);
        if self.multiplier != Multiplier::FULL
            && self
                .tally
                .as_ref()
                .is_none_or(|tally| tally.is_stale(FORGET_RATE, now))
        {
            (self.multiplier, self.tally) = (Multiplier::FULL, None);
        }
    }

    /// Tells whether a shared slot is there for a request: held by `id` already, or free beyond
    /// those that requests with an earlier position are about to take.
    #[must_use]
    pub(crate) fn has_slot(&self, most: u32, id: Option<u64>, earlier_due: u32) -> bool {
        let taken = self.slots.len() as u64 + u64::from(earlier_due);
        taken < u64::from(most) || id.is_some_and(|id| self.slots.iter().any(|slot| slot.id == id))
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

    /// Returns the instants at which waiting requests were told to come back.
    pub fn waiting_until(&self) -> impl Iterator<Item = BootInstant> {
        self.reservations
            .iter()
            .filter(|held| held.is_waiting())
            .map(|held| held.at)
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
    pub fn observe(
        &mut self,
        policy: &AdaptivePolicy,
        throttled: bool,
        now: BootInstant,
    ) -> Option<Adjustment> {
        let adjustment =
            self.tally
                .get_or_insert_default()
                .observe(policy, self.multiplier, throttled, now)?;
        self.multiplier = adjustment.new;
        Some(adjustment)
    }

    /// Returns how many weights count in `window` at `now`, those of requests that are dialling
    /// included.
    #[must_use]
    pub fn used(&self, windows: &Windows, window: &Window, now: BootInstant) -> u64 {
        let width = windows.width(window, self.multiplier);
        let held: u64 = self
            .reservations
            .iter()
            .filter(|held| !held.is_waiting())
            .map(|held| u64::from(held.weight))
            .sum();
        let history = if window.limit.get() <= EXACT_LIMIT {
            self.ring.count_within(width, now) as u64
        } else {
            self.coarse_of(window)
                .map_or(0, |coarse| coarse.count_within(width, now))
        };
        held + history
    }

    /// Tells whether nothing of this budget matters any more: every grant has left every window.
    #[must_use]
    pub fn is_idle(&self, now: BootInstant) -> bool {
        let latest = self
            .coarse
            .iter()
            .filter_map(Coarse::latest)
            .chain(self.ring.latest())
            .max();
        self.reservations.is_empty()
            && self.slots.is_empty()
            && latest.is_none_or(|latest| latest.plus_micros(u64::from(self.reach) * HOUR) <= now)
    }
}
