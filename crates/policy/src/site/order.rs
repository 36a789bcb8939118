//! The order of waiting requests: positions decide, not instants.
//!
//! A waiting request keeps its position until it goes, is refused, is given up or expires. An
//! admission request is fitted behind the waiting requests with smaller positions, whose instants
//! are computed each time. Requests with larger positions do not delay a new request, because their
//! instants are computed again when they confirm. Therefore the first position goes at its instant,
//! even if many requests wait or holders wake late.
//!
//! An order by instants could end in a livelock. A holder that wakes late would go behind the next
//! one, which would then be late as well.

use std::time::Duration;

use super::{AdmissionRequest, BudgetCost, Site, is_too_late};
use crate::budget::{Budget, CountedUse, WindowFit};
use crate::pacing::FitMode;
use crate::time::BootInstant;

/// The time for which a reservation without a holder is kept after its instant.
pub(super) const RESERVATION_GRACE: Duration = Duration::from_secs(3);
/// The time after the instant of a reservation from which its holder may have ended. Requests
/// behind it then try again when the reservation expires.
const OVERDUE_AFTER: Duration = Duration::from_millis(100);
/// The number of earlier waiting requests that are fitted one by one. The time for this grows with
/// the cube of the number. Further earlier requests count as one queue. The resulting instant is a
/// lower bound, and is computed again at the next try.
const MAX_EXACT_WAITERS: usize = 48;
/// The position behind every other, for a request without a reservation.
const LAST_POSITION: u64 = u64::MAX;

/// The reservation of a request that tries again.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnReservation {
    pub(super) id: u64,
    pub(super) position: u64,
    pub(super) at: BootInstant,
}

/// The requests before an admission request.
#[derive(Default)]
pub(super) struct EarlierRequests {
    /// The expected uses for each budget of the request; empty if there are no such uses.
    counted: Vec<Vec<CountedUse>>,
    /// The weight of waiting requests that are not counted one by one, for each of these budgets;
    /// empty if there are no such requests.
    queued: Vec<u32>,
    /// The instant at which the first of the earlier overdue reservations expires.
    overdue_until: Option<BootInstant>,
}

impl EarlierRequests {
    fn counted(&self, index: usize) -> &[CountedUse] {
        self.counted.get(index).map_or(&[], Vec::as_slice)
    }

    /// Returns the weight that goes before the request: earlier requests that are not counted one
    /// by one, and the queue of its own process. `None` if there is neither.
    fn ahead(&self, index: usize, own_queue: Option<u32>) -> Option<u32> {
        match (self.queued.get(index), own_queue) {
            (Some(queued), own) => Some(queued.saturating_add(own.unwrap_or(0))),
            (None, own) => own,
        }
    }

    /// Returns the instant of the latest expected use, if any.
    fn latest(&self) -> Option<BootInstant> {
        let of_budget = |counted: &Vec<CountedUse>| counted.last().map(|(at, _)| *at);
        self.counted.iter().filter_map(of_budget).max()
    }

    /// Returns the instant of the next try: the instant that fits, or the expiry of an overdue
    /// reservation. A dead holder therefore costs only its grace, without a further window.
    pub(super) fn ask_again_at(&self, fit: BootInstant) -> BootInstant {
        self.overdue_until.map_or(fit, |until| fit.min(until))
    }
}

/// The request for which an instant is found, which decides if the queues before it count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OrderSubject {
    /// The admission request itself, which comes behind the queues before it.
    Asking,
    /// A waiting request before the admission request, for which the queues are ignored.
    Counted,
}

impl Site {
    /// Returns the [`OwnReservation`] under which `id` waits in the budgets of a request, if it
    /// still exists.
    pub(super) fn own_reservation(
        &self,
        ask: &AdmissionRequest,
        id: u64,
    ) -> Option<OwnReservation> {
        let found = ask
            .costs
            .iter()
            .find_map(|cost| self.budgets[cost.budget].waiting(id))?;
        Some(OwnReservation {
            id,
            position: found.position,
            at: found.at,
        })
    }

    /// Returns a position behind all waiting requests in the budgets of an [`AdmissionRequest`].
    pub(super) fn next_position(&self, ask: &AdmissionRequest) -> u64 {
        let waiting = ask
            .costs
            .iter()
            .flat_map(|cost| self.budgets[cost.budget].reservations());
        waiting
            .map(|reservation| reservation.position)
            .max()
            .unwrap_or(0)
            + 1
    }

    /// Returns the number of waiting requests before `own` in the budgets of an
    /// [`AdmissionRequest`].
    pub(super) fn waiting_before(
        &self,
        ask: &AdmissionRequest,
        own: Option<OwnReservation>,
    ) -> u32 {
        let position = own.map_or(LAST_POSITION, |own| own.position);
        let of_budget = |cost: &BudgetCost| {
            let waiting = self.budgets[cost.budget].reservations().iter();
            waiting
                .filter(|other| other.is_waiting() && other.position < position)
                .count()
        };
        let most = ask.costs.iter().map(of_budget).max().unwrap_or(0);
        u32::try_from(most).unwrap_or(u32::MAX)
    }

    /// Returns the number of requests before `own` that are about to take a shared slot of a
    /// budget.
    pub(super) fn earlier_due(
        &self,
        cost: &BudgetCost,
        own: Option<OwnReservation>,
        now: BootInstant,
    ) -> u32 {
        let position = own.map_or(LAST_POSITION, |own| own.position);
        let is_due = |at: BootInstant| at <= now;
        let waiting = self.budgets[cost.budget]
            .reservations()
            .iter()
            .filter(|reservation| reservation.is_waiting() && is_due(reservation.at));
        let earlier = waiting
            .filter(|reservation| {
                reservation.position < position && own.is_none_or(|own| own.id != reservation.id)
            })
            .count();
        u32::try_from(earlier).unwrap_or(u32::MAX)
    }

    /// Lists the requests before an [`AdmissionRequest`]: those that connect, and waiting requests
    /// with smaller positions.
    pub(super) fn before(
        &self,
        ask: &AdmissionRequest,
        own: Option<OwnReservation>,
        now: BootInstant,
    ) -> EarlierRequests {
        let budgets = || ask.costs.iter().map(|cost| &self.budgets[cost.budget]);
        if budgets().all(|budget| budget.reservations().is_empty()) {
            return EarlierRequests::default();
        }
        let dialling = budgets().map(|budget| {
            let sent = budget
                .reservations()
                .iter()
                .filter(|reservation| !reservation.is_waiting());
            sent.map(|reservation| (now, reservation.weight)).collect()
        });
        let mut before = EarlierRequests {
            counted: dialling.collect(),
            queued: Vec::new(),
            overdue_until: None,
        };
        let position = own.map_or(LAST_POSITION, |own| own.position);
        let mut earlier: Vec<(u64, u64)> = budgets()
            .flat_map(Budget::reservations)
            .filter(|reservation| reservation.is_waiting() && reservation.position < position)
            .map(|reservation| (reservation.position, reservation.id))
            .collect();
        earlier.sort_unstable();
        earlier.dedup();
        for (_, id) in earlier.iter().take(MAX_EXACT_WAITERS) {
            self.count_waiting(ask, *id, &mut before, now);
        }
        if let Some((last, _)) = earlier
            .get(MAX_EXACT_WAITERS - 1)
            .filter(|_| earlier.len() > MAX_EXACT_WAITERS)
        {
            let queued = |budget: &Budget| {
                let waiting = budget
                    .reservations()
                    .iter()
                    .filter(|reservation| reservation.is_waiting());
                waiting
                    .filter(|reservation| {
                        reservation.position > *last && reservation.position < position
                    })
                    .fold(0, |sum: u32, reservation| {
                        sum.saturating_add(reservation.weight)
                    })
            };
            before.queued = budgets().map(queued).collect();
        }
        before
    }

    /// Finds the instant of the waiting request `id` in the budgets of an [`AdmissionRequest`], and
    /// adds its use to `before`.
    fn count_waiting(
        &self,
        ask: &AdmissionRequest,
        id: u64,
        before: &mut EarlierRequests,
        now: BootInstant,
    ) {
        let mut parts = Vec::with_capacity(ask.costs.len());
        let mut from = now;
        for (index, cost) in ask.costs.iter().enumerate() {
            let Some(reservation) = self.budgets[cost.budget].waiting(id) else {
                continue;
            };
            // Another process may have a larger limit. A weight above the limit of a window counts
            // as the whole window.
            parts.push((index, reservation.weight.min(cost.windows.largest_weight())));
            from = from.max(reservation.at);
            if reservation.at + OVERDUE_AFTER < now {
                before.overdue_until = Some(
                    before
                        .overdue_until
                        .map_or(reservation.expires, |until| until.min(reservation.expires)),
                );
            }
        }
        let fit = self.fit(ask, &parts, before, OrderSubject::Counted, from, ask.pace());
        for (index, weight) in parts.into_iter().filter(|(_, weight)| *weight > 0) {
            let counted = &mut before.counted[index];
            let at = counted.partition_point(|(expected, _)| *expected <= fit.at);
            counted.insert(at, (fit.at, weight));
        }
    }

    /// Finds the first instant at which an [`AdmissionRequest`] fits. If spacing would make the
    /// request too late, the windows alone decide, but the request stays behind every earlier one.
    pub(super) fn paced_fit(
        &self,
        ask: &AdmissionRequest,
        own: Option<OwnReservation>,
        before: &EarlierRequests,
        from: BootInstant,
    ) -> WindowFit {
        let fit = self.first_fit(ask, before, from, ask.pace());
        let is_paced = |cost: &BudgetCost| !cost.windows.spacings().is_empty();
        if !is_too_late(ask, own, fit, from) || !ask.costs.iter().any(is_paced) {
            return fit;
        }
        let behind = before.latest().map_or(from, |latest| from.max(latest));
        self.first_fit(ask, before, behind, FitMode::Windows)
    }

    /// Finds the first instant at which an [`AdmissionRequest`] fits every window of all its
    /// budgets.
    fn first_fit(
        &self,
        ask: &AdmissionRequest,
        before: &EarlierRequests,
        from: BootInstant,
        pace: FitMode,
    ) -> WindowFit {
        let mut parts = [(0, 0); 8];
        let costs = ask
            .costs
            .iter()
            .enumerate()
            .map(|(index, cost)| (index, cost.weight));
        if ask.costs.len() > parts.len() {
            return self.fit(
                ask,
                &costs.collect::<Vec<_>>(),
                before,
                OrderSubject::Asking,
                from,
                pace,
            );
        }
        parts
            .iter_mut()
            .zip(costs)
            .for_each(|(part, cost)| *part = cost);
        self.fit(
            ask,
            &parts[..ask.costs.len()],
            before,
            OrderSubject::Asking,
            from,
            pace,
        )
    }

    /// Finds the first instant at which each weight in `parts` (index of the cost, weight) fits the
    /// windows of its budget. `subject` decides if the queues ahead count, too.
    fn fit(
        &self,
        ask: &AdmissionRequest,
        parts: &[(usize, u32)],
        before: &EarlierRequests,
        subject: OrderSubject,
        from: BootInstant,
        pace: FitMode,
    ) -> WindowFit {
        let mut fit = WindowFit {
            at: from,
            because: None,
        };
        let asks = subject == OrderSubject::Asking;
        let own_queue = if asks {
            ask.queue_position.ahead()
        } else {
            None
        };
        let is_behind = asks && (own_queue.is_some() || !before.queued.is_empty());
        loop {
            let start = fit.at;
            for (index, weight) in parts {
                let cost = &ask.costs[*index];
                let (at, ahead) = if is_behind {
                    (from, before.ahead(*index, own_queue))
                } else {
                    (fit.at, None)
                };
                let next = self.budgets[cost.budget].first_fit(
                    &cost.windows,
                    *weight,
                    ahead,
                    before.counted(*index),
                    at,
                    pace,
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

    /// Staggers a new request that could be sent at once behind requests that are due, unless it
    /// would miss its latest instant.
    ///
    /// Permits leave their window in the bursts in which they were used. Without a stagger, the
    /// process that wakes first takes a whole burst for its own queue. Other processes, which wake
    /// slightly later, then find no free permit.
    pub(super) fn give_way(
        &self,
        ask: &AdmissionRequest,
        before: &EarlierRequests,
        fit: WindowFit,
        now: BootInstant,
    ) -> WindowFit {
        let turns = ask.costs.iter().filter(|cost| cost.weight > 0);
        let behind =
            turns.filter_map(|cost| self.budgets[cost.budget].turn_behind(&cost.windows, now));
        let Some(behind) = behind.max_by_key(|behind| behind.at) else {
            return fit;
        };
        let later = self.first_fit(ask, before, behind.at, ask.pace());
        // A stagger is a short delay. If other limits would lengthen it, the request goes now.
        if later.at > behind.at || later.at > ask.latest || later.at > ask.deadline {
            fit
        } else {
            behind
        }
    }
}
