//! A budget: windows that apply together, used permits, and reservations of waiting requests.
//!
//! The guarantee: no interval of the length of a window contains more weight than the limit of that
//! window, for any pattern of arrivals. A new request must fit the history and the expected uses.
//! Expected uses are those of requests that connect, and of waiting requests with an earlier
//! position (`site/order.rs`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::adaptive::{AdaptivePolicy, Adjustment, ObservedResponse, ThrottleWindow};
use crate::extension::Extensions;
use crate::rate::Window;
use crate::ring::{BucketRing, EXACT_LIMIT, PermitRing};
use crate::time::BootInstant;
use crate::windows::{Multiplier, Windows};

mod fit;
mod forecast;
mod history;
mod reservation;
mod slots;

pub(crate) use fit::CountedUse;
pub use fit::WindowFit;
pub use forecast::{Demand, Forecast};
pub use history::History;
pub(crate) use reservation::{Reservation, ReservationStage};
use slots::SlotLease;

/// An hour in microseconds.
const HOUR_MICROS: u64 = 3_600_000_000;
/// The number of latest waits that are kept for display.
const SHOWN_WAITS: usize = 8;
/// The time without a response after which an adaptive rate is dropped, because the run that set it
/// was probably killed.
const FORGET_RATE: Duration = Duration::from_secs(600);

/// A wait that ended, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedWait {
    /// The instant at which the wait ended.
    pub at: BootInstant,
    /// The length of the wait.
    pub length: Duration,
}

/// A change of the history of a [`Budget`]. A shared store records changes instead of the whole
/// history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetChange {
    /// A weight was used at an instant.
    Spent {
        /// The weight.
        weight: u32,
        /// The instant of the use.
        at: BootInstant,
    },
    /// A weight that was spent at an instant was not used.
    TakenBack {
        /// The weight.
        weight: u32,
        /// The instant at which the weight was spent.
        at: BootInstant,
    },
}

/// The shared state of a budget. Its history (ring and buckets) is recorded separately, as
/// [`BudgetChange`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Budget {
    #[serde(skip)]
    ring: PermitRing,
    /// The number of permits that are recorded one by one, enough for the windows of all processes.
    keep: u32,
    coarse: Vec<BucketRing>,
    /// The signature of the windows for which this process last extended the history.
    #[serde(skip)]
    remembered: u64,
    /// The time for which the windows of all processes look back, in hours, rounded up. A small
    /// number keeps an unused budget small.
    #[serde(skip)]
    reach: u16,
    reservations: Vec<Reservation>,
    slots: Vec<SlotLease>,
    multiplier: Multiplier,
    counts: Option<Box<ThrottleWindow>>,
    #[expect(
        clippy::box_collection,
        reason = "one word in each of very many budgets, most of which never have it"
    )]
    waits: Option<Box<Vec<EndedWait>>>,
    /// The fields that later versions of the program added.
    pub(crate) extensions: Extensions,
    #[serde(skip)]
    #[expect(clippy::box_collection, reason = "as above")]
    journal: Option<Box<Vec<BudgetChange>>>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            ring: PermitRing::default(),
            keep: 0,
            coarse: Vec::new(),
            remembered: 0,
            reach: 0,
            reservations: Vec::new(),
            slots: Vec::new(),
            multiplier: Multiplier::FULL,
            counts: None,
            waits: None,
            extensions: Extensions::default(),
            journal: None,
        }
    }
}

impl Budget {
    /// Returns whether only the history counts: the rate is full, and there are no reservations.
    #[inline]
    #[must_use]
    pub(crate) fn is_plain(&self) -> bool {
        self.reservations.is_empty() && self.multiplier == Multiplier::FULL
    }

    /// Returns the reservations, in no particular order.
    #[inline]
    pub(crate) fn reservations(&self) -> &[Reservation] {
        &self.reservations
    }

    /// Extends the history to the time for which these [`Windows`] look back.
    #[inline]
    pub(crate) fn remember(&mut self, windows: &Windows) {
        if self.remembered == windows.signature {
            return;
        }
        self.remembered = windows.signature;
        let hours = |width: u64| u16::try_from(width.div_ceil(HOUR_MICROS)).unwrap_or(u16::MAX);
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
                    self.coarse.push(BucketRing::new(*window, width));
                }
            }
        }
    }

    /// Returns whether the history covers the time for which these [`Windows`] look back.
    #[inline]
    pub(crate) fn remembers(&self, windows: &Windows) -> bool {
        self.remembered == windows.signature
    }

    /// Returns whether no process needs a history.
    #[inline]
    fn is_boundless(&self) -> bool {
        self.keep == 0 && self.coarse.is_empty()
    }

    /// Records that `weight` was used at `now`.
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
            journal.push(BudgetChange::Spent { weight, at: now });
        }
    }

    /// Reverts a `weight` that was spent at `at` and never used.
    pub fn take_back(&mut self, weight: u32, at: BootInstant) {
        if self.is_boundless() {
            return;
        }
        self.ring.take_back(at, weight);
        for coarse in &mut self.coarse {
            coarse.take_back(at, weight);
        }
        if let Some(journal) = &mut self.journal {
            journal.push(BudgetChange::TakenBack { weight, at });
        }
    }

    /// Adds a [`Reservation`], or replaces that of the same holder.
    pub(crate) fn reserve(&mut self, reservation: Reservation) {
        match self
            .reservations
            .iter_mut()
            .find(|existing| existing.id == reservation.id)
        {
            Some(existing) => *existing = reservation,
            None => self.reservations.push(reservation),
        }
    }

    /// Returns the [`Reservation`] under which the request `id` waits, if any.
    pub(crate) fn waiting(&self, id: u64) -> Option<&Reservation> {
        self.reservations
            .iter()
            .find(|reservation| reservation.id == id && reservation.is_waiting())
    }

    /// Drops the reservation of `id`, and returns whether there was a reservation.
    pub fn release(&mut self, id: u64) -> bool {
        let before = self.reservations.len();
        self.reservations.retain(|reservation| reservation.id != id);
        self.reservations.len() < before
    }

    /// Records that the request of a reservation was sent. The reservation then counts as a use at
    /// the present instant; at `until` the use is recorded for good.
    pub fn sent(&mut self, id: u64, until: BootInstant) {
        for reservation in self
            .reservations
            .iter_mut()
            .filter(|reservation| reservation.id == id)
        {
            (reservation.stage, reservation.expires) = (ReservationStage::Sent, until);
        }
    }

    /// Ends expired reservations and slots. Reservations of waiting holders are dropped; those of
    /// sent requests are recorded as uses.
    #[inline]
    pub fn expire(&mut self, now: BootInstant) {
        while let Some(index) = self
            .reservations
            .iter()
            .position(|reservation| reservation.expires <= now)
        {
            let reservation = self.reservations.remove(index);
            if reservation.stage == ReservationStage::Sent {
                self.spend(reservation.weight, reservation.expires);
            }
        }
        self.slots.retain(|slot| slot.expires > now);
        if self.multiplier != Multiplier::FULL
            && self
                .counts
                .as_ref()
                .is_none_or(|counts| counts.is_stale(FORGET_RATE, now))
        {
            (self.multiplier, self.counts) = (Multiplier::FULL, None);
        }
    }

    /// Returns the number of requests that wait at `now`. An expired reservation does not count,
    /// because its holder has ended.
    #[must_use]
    pub fn count_waiting(&self, now: BootInstant) -> usize {
        let reservations = self.reservations.iter();
        let waiting = reservations
            .filter(|reservation| reservation.is_waiting() && reservation.expires > now);
        waiting.count()
    }

    /// Records an [`EndedWait`].
    pub fn note_wait(&mut self, wait: EndedWait) {
        let waits = self.waits.get_or_insert_default();
        if waits.len() >= SHOWN_WAITS {
            waits.remove(0);
        }
        waits.push(wait);
    }

    /// Returns the latest waits, oldest first.
    #[must_use]
    pub fn waits(&self) -> &[EndedWait] {
        self.waits.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Returns the current [`Multiplier`].
    #[must_use]
    pub fn multiplier(&self) -> Multiplier {
        self.multiplier
    }

    /// Replaces the [`Multiplier`], and returns the one before.
    pub(crate) fn replace_multiplier(&mut self, multiplier: Multiplier) -> Multiplier {
        std::mem::replace(&mut self.multiplier, multiplier)
    }

    /// Resets the adaptive rate. Returns whether responses were counted for it.
    pub(crate) fn forget_adaptation(&mut self) -> bool {
        self.multiplier = Multiplier::FULL;
        self.counts.take().is_some()
    }

    /// Counts a response for the adaptive rate. A change of the rate keeps the history.
    pub fn observe(
        &mut self,
        policy: &AdaptivePolicy,
        throttled: bool,
        now: BootInstant,
    ) -> Option<Adjustment> {
        let waited_at = self.waits().last().map(|wait| wait.at);
        let answer = ObservedResponse {
            throttled,
            waited_at,
        };
        let counts = self.counts.get_or_insert_default();
        let adjustment = counts.observe(policy, self.multiplier, answer, now)?;
        self.multiplier = adjustment.new;
        Some(adjustment)
    }

    /// Returns the weight that counts as used in `window` at `now`, including requests that
    /// connect.
    #[must_use]
    pub fn used(&self, windows: &Windows, window: &Window, now: BootInstant) -> u64 {
        let width = windows.width(window, self.multiplier);
        let dialling: u64 = self
            .reservations
            .iter()
            .filter(|reservation| !reservation.is_waiting())
            .map(|reservation| u64::from(reservation.weight))
            .sum();
        let history = if window.limit.get() <= EXACT_LIMIT {
            self.ring.count_within(width, now) as u64
        } else {
            self.coarse_of(window)
                .map_or(0, |coarse| coarse.count_within(width, now))
        };
        dialling + history
    }

    /// Returns whether the budget can be dropped, because every permit has left every window.
    #[must_use]
    pub fn is_idle(&self, now: BootInstant) -> bool {
        let latest = self
            .coarse
            .iter()
            .filter_map(BucketRing::latest)
            .chain(self.ring.latest())
            .max();
        self.reservations.is_empty()
            && self.slots.is_empty()
            && latest
                .is_none_or(|latest| latest.plus_micros(u64::from(self.reach) * HOUR_MICROS) <= now)
    }
}
