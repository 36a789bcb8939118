//! Order among requests that wait: positions decide, not instants.
//!
//! A waiting request keeps its position until it goes, is refused, leaves or expires. Whoever asks
//! is fitted behind the waiting requests with smaller positions, whose instants are worked out anew
//! at every ask, and never behind those with larger ones: they move when they confirm. So the first
//! in order goes when its instant comes, however many wait and however late each of them wakes.
//! Instants decided the order once: a holder that woke a moment late was sent behind the next one,
//! which then suffered the same, and no request ever went.

use std::time::Duration;

use super::{Ask, Cost, Site};
use crate::budget::{Budget, Counted, Fit};
use crate::time::BootInstant;

/// How long a reservation outlives its instant when its holder is gone.
pub(super) const GRACE: Duration = Duration::from_secs(3);
/// A holder that is later than this may be gone: whoever waits behind it looks again when its
/// reservation is over.
const OVERDUE: Duration = Duration::from_millis(100);
/// So many waiting requests before one are fitted each by itself, which takes time that grows with
/// their cube. Those behind them, who are before it too, count as one queue: its instant is then a
/// lower bound, and is worked out anew when it asks again.
const FITTED: usize = 48;
/// A position that is behind every other: that of a request without a reservation.
const LAST: u64 = u64::MAX;

/// The reservation under which a request asks again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) id: u64,
    pub(super) position: u64,
    pub(super) at: BootInstant,
}

/// What a request has before it.
#[derive(Default)]
pub(super) struct Before {
    /// The uses to come, for each of the budgets that the request charges; empty if there are none
    /// at all.
    counted: Vec<Vec<Counted>>,
    /// The weights of the waiting requests that are not among them, for each of these budgets;
    /// empty if there are none.
    queued: Vec<u32>,
    /// When the first of the overdue reservations before it ends.
    overdue_until: Option<BootInstant>,
}

impl Before {
    fn counted(&self, place: usize) -> &[Counted] {
        self.counted.get(place).map_or(&[], Vec::as_slice)
    }

    /// Returns the weights to be fitted before the request's own: of requests that are not counted
    /// one by one, and of the queue of its own process.
    fn ahead(&self, place: usize, own_queue: Option<u32>) -> Option<u32> {
        match (self.queued.get(place), own_queue) {
            (Some(queued), own) => Some(queued.saturating_add(own.unwrap_or(0))),
            (None, own) => own,
        }
    }

    /// Returns when to ask again: at the instant that fits, or when a reservation ends whose holder
    /// may be gone. A dead holder costs its grace, and not a window more.
    pub(super) fn ask_again_at(&self, fit: BootInstant) -> BootInstant {
        self.overdue_until.map_or(fit, |until| fit.min(until))
    }
}

impl Site {
    /// Returns the reservation under which `id` waits in the budgets of a request, if it is still
    /// there.
    pub(super) fn held(&self, ask: &Ask<'_>, id: u64) -> Option<Held> {
        let found = ask
            .costs
            .iter()
            .find_map(|cost| self.budgets[cost.budget].waiting(id))?;
        Some(Held {
            id,
            position: found.position,
            at: found.at,
        })
    }

    /// Returns a position behind all that wait in the budgets of a request.
    pub(super) fn next_position(&self, ask: &Ask<'_>) -> u64 {
        let waiting = ask
            .costs
            .iter()
            .flat_map(|cost| self.budgets[cost.budget].reservations());
        waiting.map(|held| held.position).max().unwrap_or(0) + 1
    }

    /// Counts the requests before `mine` that are about to take a shared slot of a budget.
    pub(super) fn earlier_due(&self, cost: &Cost, mine: Option<Held>, now: BootInstant) -> u32 {
        let position = mine.map_or(LAST, |mine| mine.position);
        let is_due = |at: BootInstant| at <= now;
        let waiting = self.budgets[cost.budget]
            .reservations()
            .iter()
            .filter(|held| held.is_waiting() && is_due(held.at));
        let earlier = waiting
            .filter(|held| held.position < position && mine.is_none_or(|mine| mine.id != held.id))
            .count();
        u32::try_from(earlier).unwrap_or(u32::MAX)
    }

    /// Works out what a request has before it: what is dialling, and the waiting requests with
    /// smaller positions.
    pub(super) fn before(&self, ask: &Ask<'_>, mine: Option<Held>, now: BootInstant) -> Before {
        let budgets = || ask.costs.iter().map(|cost| &self.budgets[cost.budget]);
        if budgets().all(|budget| budget.reservations().is_empty()) {
            return Before::default();
        }
        let dialling = budgets().map(|budget| {
            let sent = budget
                .reservations()
                .iter()
                .filter(|held| !held.is_waiting());
            sent.map(|held| (now, held.weight)).collect()
        });
        let mut before = Before {
            counted: dialling.collect(),
            queued: Vec::new(),
            overdue_until: None,
        };
        let position = mine.map_or(LAST, |mine| mine.position);
        let mut earlier: Vec<(u64, u64)> = budgets()
            .flat_map(Budget::reservations)
            .filter(|held| held.is_waiting() && held.position < position)
            .map(|held| (held.position, held.id))
            .collect();
        earlier.sort_unstable();
        earlier.dedup();
        for (_, id) in earlier.iter().take(FITTED) {
            self.count_waiting(ask, *id, &mut before, now);
        }
        if let Some((last, _)) = earlier.get(FITTED - 1).filter(|_| earlier.len() > FITTED) {
            let queued = |budget: &Budget| {
                let waiting = budget
                    .reservations()
                    .iter()
                    .filter(|held| held.is_waiting());
                waiting
                    .filter(|held| held.position > *last && held.position < position)
                    .fold(0, |sum: u32, held| sum.saturating_add(held.weight))
            };
            before.queued = budgets().map(queued).collect();
        }
        before
    }

    /// Fits one waiting request as it stands now, and counts it from that instant on.
    fn count_waiting(&self, ask: &Ask<'_>, id: u64, before: &mut Before, now: BootInstant) {
        let mut parts = Vec::with_capacity(ask.costs.len());
        let mut from = now;
        for (place, cost) in ask.costs.iter().enumerate() {
            let Some(held) = self.budgets[cost.budget].waiting(id) else {
                continue;
            };
            // Another process may know a larger limit: what is heavier than all of a window takes
            // all of it.
            parts.push((place, held.weight.min(cost.windows.largest_weight())));
            from = from.max(held.at);
            if held.at + OVERDUE < now {
                before.overdue_until = Some(
                    before
                        .overdue_until
                        .map_or(held.expires, |until| until.min(held.expires)),
                );
            }
        }
        let fit = self.fit(ask, &parts, before, false, from);
        for (place, weight) in parts.into_iter().filter(|(_, weight)| *weight > 0) {
            let counted = &mut before.counted[place];
            let at = counted.partition_point(|(expected, _)| *expected <= fit.at);
            counted.insert(at, (fit.at, weight));
        }
    }

    /// Finds the first instant that fits every window of every budget that a request charges.
    pub(super) fn first_fit(&self, ask: &Ask<'_>, before: &Before, from: BootInstant) -> Fit {
        let mut parts = [(0, 0); 8];
        let costs = ask
            .costs
            .iter()
            .enumerate()
            .map(|(place, cost)| (place, cost.weight));
        if ask.costs.len() > parts.len() {
            return self.fit(ask, &costs.collect::<Vec<_>>(), before, true, from);
        }
        parts
            .iter_mut()
            .zip(costs)
            .for_each(|(part, cost)| *part = cost);
        self.fit(ask, &parts[..ask.costs.len()], before, true, from)
    }

    /// Finds the first instant that fits for these weights in these of the charged budgets: as the
    /// request that `asks` itself, behind the queues before it, or as one that is counted.
    fn fit(
        &self,
        ask: &Ask<'_>,
        parts: &[(usize, u32)],
        before: &Before,
        asks: bool,
        from: BootInstant,
    ) -> Fit {
        let mut fit = Fit {
            at: from,
            because: None,
        };
        let own_queue = if asks {
            ask.queue_position.ahead()
        } else {
            None
        };
        let is_behind = asks && (own_queue.is_some() || !before.queued.is_empty());
        loop {
            let start = fit.at;
            for (place, weight) in parts {
                let cost = &ask.costs[*place];
                let (at, ahead) = if is_behind {
                    (from, before.ahead(*place, own_queue))
                } else {
                    (fit.at, None)
                };
                let next = self.budgets[cost.budget].first_fit(
                    &cost.windows,
                    *weight,
                    ahead,
                    before.counted(*place),
                    at,
                );
                if next.at > fit.at {
                    fit = next;
                }
            }
            if fit.at == start || parts.len() < 2 || is_behind {
                return fit;
            }
        }
    }

    /// Puts a newcomer that could go at once behind those whose turn it is, as far as its patience
    /// allows.
    ///
    /// Permits leave their window in the bursts in which they were used. Without this, the process
    /// that wakes first takes all of a burst for its own queue, and the others find nothing when
    /// they wake a moment later.
    pub(super) fn give_way(
        &self,
        ask: &Ask<'_>,
        before: &Before,
        fit: Fit,
        now: BootInstant,
    ) -> Fit {
        let turns = ask.costs.iter().filter(|cost| cost.weight > 0);
        let behind =
            turns.filter_map(|cost| self.budgets[cost.budget].turn_behind(&cost.windows, now));
        let Some(behind) = behind.max_by_key(|behind| behind.at) else {
            return fit;
        };
        let later = self.first_fit(ask, before, behind.at);
        // A turn costs a moment. Where it would cost the permit as well, the one that is free now
        // is taken.
        if later.at > behind.at || later.at > ask.latest || later.at > ask.deadline {
            fit
        } else {
            behind
        }
    }
}
