//! A budget: windows that all hold, the grants used, and the tickets of those who wait.
//!
//! The guarantee: in no interval of the length of a window are more weights granted than its limit, whatever the
//! arrival pattern. A ticket counts as used at its own instant, and from then on as used now, until it is confirmed or
//! dropped: so whoever holds a due ticket (asleep a little too long, waiting for a slot, dialling) still has its place.

use std::time::Duration;

use crate::adaptive::{AdaptivePolicy, Adjustment, Tally};
use crate::rate::Window;
use crate::ring::{Coarse, EXACT_LIMIT, Ring};
use crate::time::{BootInstant, micros};

/// The windows of a budget as a process applies them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    list: Box<[Window]>,
    /// The widths at the full rate, guard included, in microseconds: the hot path adds and compares, it does not convert.
    widths: Box<[u64]>,
    guard: Duration,
    /// How many exact grants are worth remembering.
    keep: u32,
    has_coarse: bool,
}

/// Windows longer than this are quotas: the adaptive multiplier leaves them alone.
const PACING: Duration = Duration::from_secs(60);

impl Windows {
    /// Joins windows that all hold, each widened by `guard` against late arrivals at the origin.
    #[must_use]
    pub fn new(list: impl Into<Box<[Window]>>, guard: Duration) -> Self {
        let list = list.into();
        let exact = list.iter().map(|window| window.limit.get()).filter(|limit| *limit <= EXACT_LIMIT);
        let keep = exact.max().unwrap_or(0);
        let widths = list.iter().map(|window| micros(window.per + guard)).collect();
        let has_coarse = list.iter().any(|window| window.limit.get() > EXACT_LIMIT);
        Self { list, widths, guard, keep, has_coarse }
    }

    /// Returns the windows as configured.
    #[must_use]
    pub fn list(&self) -> &[Window] {
        &self.list
    }

    /// Returns the largest weight that a single request may have.
    #[must_use]
    pub fn largest_weight(&self) -> u32 {
        self.list.iter().map(|window| window.limit.get()).min().unwrap_or(u32::MAX)
    }

    /// Returns the width in force: stretched by the multiplier if it paces, widened by the guard.
    fn width(&self, window: &Window, multiplier: Multiplier) -> Duration {
        if window.per <= PACING { multiplier.stretch(window.per) + self.guard } else { window.per + self.guard }
    }

    /// Returns each window with the width in force.
    #[inline]
    fn in_force(&self, multiplier: Multiplier) -> impl Iterator<Item = (&Window, u64)> {
        let full = multiplier == Multiplier::FULL;
        self.list.iter().zip(&self.widths).map(move |(window, width)| (window, if full { *width } else { micros(self.width(window, multiplier)) }))
    }
}

/// The share of the configured rate that adaptive pacing leaves, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Multiplier(u16);

impl Multiplier {
    /// The whole configured rate.
    pub const FULL: Self = Self(1_000);
    /// The least that is ever left.
    pub const LOWEST: Self = Self(10);

    /// Makes a multiplier from a share, kept between a hundredth and one.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 10..=1000 first")]
    pub fn from_share(share: f64) -> Self {
        Self((share * 1_000.0).round().clamp(10.0, 1_000.0) as u16)
    }

    /// Returns the share of the rate.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.0) / 1_000.0
    }

    fn stretch(self, per: Duration) -> Duration {
        if self == Self::FULL { per } else { per * 1_000 / u32::from(self.0) }
    }
}

/// A place held by somebody who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticket {
    id: u64,
    at: BootInstant,
    weight: u32,
    expires: BootInstant,
    standing: Holding,
}

/// What becomes of a ticket whose time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holding {
    /// Its holder is gone: the place is free.
    Waiting,
    /// Its request has left: it counts as used at that instant.
    Sent,
}

/// The shared state of a budget.
#[derive(Clone, Debug)]
pub struct Budget {
    ring: Ring,
    coarse: Vec<Coarse>,
    tickets: Vec<Ticket>,
    multiplier: Multiplier,
    tally: Option<Box<Tally>>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { ring: Ring::default(), coarse: Vec::new(), tickets: Vec::new(), multiplier: Multiplier::FULL, tally: None }
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
    /// Tells whether anybody holds a place.
    #[inline]
    #[must_use]
    pub fn has_tickets(&self) -> bool {
        !self.tickets.is_empty()
    }

    /// Finds the first instant from `from` on at which `weight` fits every window, behind `ahead` weights in line.
    ///
    /// Exact when nobody is ahead; with a line before it, and several windows, a lower bound. O(windows + tickets).
    #[inline]
    #[must_use]
    pub fn first_fit(&self, windows: &Windows, weight: u32, ahead: Option<u32>, from: BootInstant, now: BootInstant) -> Fit {
        let mut fit = Fit { at: from, because: None };
        if weight == 0 {
            return fit;
        }
        if self.tickets.is_empty() && ahead.is_none() {
            // Grants alone: each window looks so many back, and the latest answer holds for all.
            let mut latest = None;
            for (place, (window, width)) in windows.in_force(self.multiplier).enumerate() {
                let k = (window.limit.get() + 1).saturating_sub(weight);
                let free = self.used_back(window, k).map_or(from, |grant| grant.plus_micros(width));
                if free > fit.at {
                    fit.at = free;
                    latest = Some(place);
                }
            }
            fit.because = latest.map(|place| windows.list[place]);
            return fit;
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
        if window.limit.get() <= EXACT_LIMIT { self.ring.back(k) } else { self.coarse.iter().find(|coarse| coarse.window() == *window)?.back(k) }
    }

    /// Remembers that `weight` was used at `now`.
    #[inline]
    pub fn spend(&mut self, windows: &Windows, weight: u32, now: BootInstant) {
        if weight == 0 {
            return;
        }
        if windows.keep > 0 {
            self.ring.push(now, weight, windows.keep);
        }
        if !windows.has_coarse {
            return;
        }
        for (window, width) in windows.in_force(self.multiplier).filter(|(window, _)| window.limit.get() > EXACT_LIMIT) {
            let place = self.coarse.iter().position(|coarse| coarse.window() == *window).unwrap_or_else(|| {
                self.coarse.reserve_exact(1);
                self.coarse.push(Coarse::new(*window));
                self.coarse.len() - 1
            });
            self.coarse[place].push(now, weight, width);
        }
    }

    /// Takes back `weight` that was spent at `at` and never used.
    pub fn take_back(&mut self, weight: u32, at: BootInstant) {
        self.ring.take_back(at, weight);
        for coarse in &mut self.coarse {
            coarse.take_back(at, weight);
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
    pub fn expire(&mut self, windows: &Windows, now: BootInstant) {
        while let Some(place) = self.tickets.iter().position(|ticket| ticket.expires <= now) {
            let ticket = self.tickets.remove(place);
            if ticket.standing == Holding::Sent {
                self.spend(windows, ticket.weight, ticket.expires);
            }
        }
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

    /// Returns how many weights count in `window` at `now`, those of tickets included.
    #[must_use]
    pub fn used(&self, windows: &Windows, window: &Window, now: BootInstant) -> u64 {
        let width = windows.width(window, self.multiplier);
        let held: u64 = self.tickets.iter().map(|ticket| u64::from(ticket.weight)).sum();
        let history = if window.limit.get() <= EXACT_LIMIT {
            self.ring.count_within(width, now) as u64
        } else {
            self.coarse.iter().find(|coarse| coarse.window() == *window).map_or(0, |coarse| coarse.count_within(width, now))
        };
        held + history
    }

    /// Tells whether nothing of this budget matters any more `memory` after its last grant.
    #[must_use]
    pub fn is_idle(&self, memory: Duration, now: BootInstant) -> bool {
        let latest = self.coarse.iter().filter_map(Coarse::latest).chain(self.ring.latest()).max();
        self.tickets.is_empty() && latest.is_none_or(|latest| latest + memory <= now)
    }
}
