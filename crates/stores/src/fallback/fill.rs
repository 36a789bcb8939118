//! The precautions at a switch of stores: full short windows, and a rotation between processes.

use std::time::Duration;

use docstokg_policy::site::{
    AdmissionDecision, AdmissionRequest, AdmissionResult, BudgetCost, QueuePosition, Refusal,
    RefusalReason, ReservedSlot,
};
use docstokg_policy::time::BootInstant;
use docstokg_policy::windows::Windows;

use super::LOCAL_ID;
use super::site::BothSites;
use super::watch::{LOSS_VALID, StoreSwitch};

/// The length up to which a window is short: it counts as full when this process switches stores.
const SHORT_WINDOW: Duration = Duration::from_secs(600);

/// The weight that the own store counts as used in a budget's short windows, as a precaution.
#[derive(Default)]
pub(super) struct FillCounts {
    /// The number of the switch for which the windows were filled.
    switch: u64,
    weight: u32,
    at: BootInstant,
    until: BootInstant,
}

/// Returns the number of permits that fill every short window of a share, and the time for which
/// permits of other processes stay in these windows. `windows` are those before the division among
/// processes, which decide if a window is short: an hour among six processes is still an hour.
fn pacing(windows: &Windows, shared: &Windows) -> (u32, Duration) {
    let short = windows
        .list()
        .iter()
        .zip(shared.list())
        .filter(|(window, _)| window.per <= SHORT_WINDOW);
    let filled = short.map(|(window, share)| (share.limit.get(), window.per + windows.guard()));
    filled.fold((0, Duration::ZERO), |(limit, width), (other, wider)| {
        (limit.max(other), width.max(wider))
    })
}

impl BothSites {
    /// Returns the wait for the next slot in the rotation of processes, if a window allows fewer
    /// requests than there are processes.
    pub(super) fn await_turn(
        &self,
        ask: &AdmissionRequest,
        reservation: Option<u64>,
    ) -> Option<AdmissionResult> {
        let (rank, peers, wall) = (
            self.watch.rank(),
            self.watch.peers(),
            self.watch.clock.wall(),
        );
        let turns = ask
            .costs
            .iter()
            .filter_map(|cost| Some((cost.windows.next_turn(rank, peers, wall)?, cost)));
        let (wait, cost) = turns
            .max_by_key(|(wait, _)| *wait)
            .filter(|(wait, _)| !wait.is_zero())?;
        let (at, because) = (
            self.watch.clock.boot() + wait,
            cost.windows.list().first().copied(),
        );
        let entry = if at > ask.latest || at > ask.deadline {
            AdmissionDecision::Refused(Refusal {
                until: at,
                reason: RefusalReason::Rate { window: because },
            })
        } else if ask.queue_position == QueuePosition::Head {
            // A request with a reservation keeps its id. Otherwise no reservation is stored,
            // because the slot belongs to this process alone.
            let own = reservation.filter(|id| *id >= LOCAL_ID);
            let id = own.unwrap_or_else(|| LOCAL_ID | fastrand::u64(..LOCAL_ID));
            AdmissionDecision::Wait(ReservedSlot {
                id,
                at,
                because,
                probe: false,
            })
        } else {
            AdmissionDecision::Queue { at }
        };
        Some(AdmissionResult {
            entry,
            transition: None,
        })
    }

    /// Counts the short windows of a request's budgets as full, once for each switch. This process
    /// does not know the latest permits of other processes. Returns the instant until which the
    /// windows count as full.
    pub(super) fn fill(&self, ask: &AdmissionRequest, own: &AdmissionRequest) -> BootInstant {
        let Some(switch) = self.watch.last_switch() else {
            return BootInstant::default();
        };
        let mut filled = self.filled.lock();
        let costs = ask.costs.iter().zip(&*own.costs);
        let until = costs.map(|(all, share)| {
            self.fill_budget(
                &all.windows,
                share,
                filled.entry(share.budget).or_default(),
                switch,
            )
        });
        until.max().unwrap_or_default()
    }

    fn fill_budget(
        &self,
        windows: &Windows,
        cost: &BudgetCost,
        filled: &mut FillCounts,
        last: StoreSwitch,
    ) -> BootInstant {
        let now = self.watch.clock.boot();
        if filled.weight > 0 && (filled.switch != last.number || filled.until <= now) {
            // No request used these permits, so they must not count in the long windows.
            self.own.empty_at(cost.budget, filled.weight, filled.at);
            filled.weight = 0;
        }
        if filled.switch != last.number {
            let (weight, width) = pacing(windows, &cost.windows);
            // Other processes notice the switch slightly later.
            let at = last.at + LOSS_VALID;
            let until = if width.is_zero() {
                BootInstant::default()
            } else {
                at + width
            };
            *filled = FillCounts {
                switch: last.number,
                weight: if until > now { weight } else { 0 },
                at,
                until,
            };
            self.own
                .fill_at(cost.budget, &cost.windows, filled.weight, at);
        }
        filled.until
    }

    /// Returns whether the shared store returned so recently that other processes may not have
    /// noticed.
    pub(super) fn is_too_early(&self, ask: &AdmissionRequest) -> bool {
        // Almost always there was no switch, or not for a long time.
        let Some(switch) = self.watch.last_switch() else {
            return false;
        };
        if switch.at + LOSS_VALID + 2 * SHORT_WINDOW < self.watch.clock.boot() {
            return false;
        }
        let own = self.own_ask(ask, self.watch.peers());
        self.fill(ask, &own) > self.watch.clock.boot()
    }
}
