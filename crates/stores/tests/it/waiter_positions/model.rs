//! Processes that call a store, wake late, pause, give up and die.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::breaker::BreakerPolicy;
use docstokg_policy::host::Host;
use docstokg_policy::role::Role;
use docstokg_policy::site::{AdmissionDecision, AdmissionRequest, BudgetCost, LanePolicy, Permit};
use docstokg_policy::time::BootInstant;
use docstokg_policy::windows::Windows;
use docstokg_stores::conformance::arrive;
use docstokg_stores::{BudgetKey, SiteHandle};
use fastrand::Rng;

use super::START;
use super::outcome::Outcome;
use super::plan::Plan;
use crate::clock::ManualClock;

pub(super) const GUARD: Duration = Duration::from_millis(10);
/// How long a reservation outlives its instant.
const GRACE: u64 = 3_000_000;
/// A permit that is older than this when it would be sent is given back.
const TOO_OLD: u64 = 100_000;

/// What a process does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// It calls the store: the call arrives now.
    Call,
    /// The permit that it was given at an instant reaches it.
    Answer(u64),
}

/// One process of the model.
pub(super) struct ModelProcess {
    costs: Vec<BudgetCost>,
    waits: Option<Waits>,
    permit: Option<Permit>,
    /// When it had nothing more to wait for but the store.
    ready: u64,
    /// Permits after the first burst, which goes to the process that comes first: none waits yet.
    pub(super) permits: usize,
    pub(super) dead: bool,
}

/// A reservation, as its holder knows it.
#[derive(Clone, Copy)]
struct Waits {
    id: u64,
    at: u64,
    /// Smaller was made earlier.
    order: u64,
    /// It was the first in order when it last asked.
    first: bool,
}

/// A use: when, by how much later than it might have been, and how much.
pub(super) type Use = (u64, u64, u32);

/// A run of the model.
pub(super) struct PositionsModel<'a> {
    pub(super) plan: &'a Plan,
    site: &'a dyn SiteHandle,
    pub(super) clock: &'a ManualClock,
    policy: BreakerPolicy,
    random: Rng,
    pub(super) processes: Vec<ModelProcess>,
    events: BinaryHeap<Reverse<(u64, u64, usize, Next)>>,
    made: u64,
    pub(super) used: Vec<Vec<Use>>,
    pub(super) confirms: usize,
    pub(super) permits: usize,
    first_burst_ends: u64,
}

impl<'a> PositionsModel<'a> {
    pub(super) fn new(plan: &'a Plan, site: &'a dyn SiteHandle, clock: &'a ManualClock) -> Self {
        clock.set(START);
        let names = [
            BudgetKey::Role(Host::parse("a.example").expect("a host"), Role::Metadata),
            BudgetKey::Common,
        ];
        let windows: Vec<Arc<Windows>> = plan
            .windows()
            .into_iter()
            .map(|list| Arc::new(Windows::new(list, GUARD)))
            .collect();
        let cost = |index: usize| BudgetCost {
            budget: site.budget(&names[index]),
            weight: 1,
            windows: Arc::clone(&windows[index]),
            slots: None,
        };
        let all: Vec<BudgetCost> = (0..windows.len()).map(cost).collect();
        let processes = (0..plan.processes).map(|number| {
            let costs = match number % 3 {
                0 if plan.mixed => all[..1].to_vec(),
                1 if plan.mixed => all[1..].to_vec(),
                _ => all.clone(),
            };
            ModelProcess {
                costs,
                waits: None,
                permit: None,
                ready: START,
                permits: 0,
                dead: false,
            }
        });
        let (processes, used) = (processes.collect(), vec![Vec::new(); windows.len()]);
        let mut model = Self {
            plan,
            site,
            clock,
            policy: BreakerPolicy::default(),
            random: Rng::with_seed(plan.seed),
            processes,
            events: BinaryHeap::new(),
            made: 0,
            used,
            confirms: 0,
            permits: 0,
            first_burst_ends: START + 500_000,
        };
        for process in 0..plan.processes {
            let delay = model.random.u64(..2_000);
            model.schedule(START + delay, process, Next::Call);
        }
        model
    }

    fn schedule(&mut self, at: u64, process: usize, next: Next) {
        self.made += 1;
        self.events.push(Reverse((at, self.made, process, next)));
    }

    fn latency(&mut self) -> u64 {
        self.random.u64(..=self.plan.latency)
    }

    fn lateness(&mut self) -> u64 {
        let usual = self.random.u64(..=self.plan.late);
        if self.plan.very_late > 0 && self.random.u32(..self.plan.very_late) == 0 {
            usual + 500_000
        } else {
            usual
        }
    }

    /// Runs until every process has had its share of permits, or far too much time has passed.
    pub(super) fn run(mut self) -> Result<Outcome, String> {
        let wanted = self.plan.permits * self.plan.processes;
        let mut to_die = self.plan.deaths.min(self.plan.processes - 1);
        let mut asks = 0;
        while self.permits < wanted {
            let Some(Reverse((at, _, process, next))) = self.events.pop() else {
                return Err("nothing is left to happen".to_owned());
            };
            asks += 1;
            if asks > 60 * wanted + 2_000 {
                return Err(format!(
                    "{} permits after {asks} events: requests push each other back",
                    self.permits
                ));
            }
            self.clock.set(at);
            match next {
                Next::Answer(given) => self.answered(process, given, at),
                Next::Call => {
                    if self.processes[process].waits.is_some()
                        && to_die > 0
                        && self.permits > wanted / 3
                    {
                        to_die -= 1;
                        self.processes[process].dead = true;
                        continue;
                    }
                    if self.processes[process].waits.is_some()
                        && self.plan.cancels > 0
                        && self.random.u32(..self.plan.cancels) == 0
                    {
                        self.cancel(process, at);
                        continue;
                    }
                    self.call(process, at)?;
                }
            }
        }
        self.outcome()
    }

    fn ask(costs: &[BudgetCost], policy: &BreakerPolicy) -> AdmissionRequest {
        AdmissionRequest {
            latest: BootInstant::FAR,
            ..AdmissionRequest::at_once(costs, LanePolicy::new(policy.clone()))
        }
    }

    /// Returns whether a process is the first in order among those that wait for one of its
    /// budgets.
    fn is_first(&self, process: usize, order: u64, now: u64) -> bool {
        let own = &self.processes[process].costs;
        let shares = |other: &ModelProcess| {
            other
                .costs
                .iter()
                .any(|cost| own.iter().any(|own| own.budget == cost.budget))
        };
        let before = |other: &ModelProcess| {
            other
                .waits
                .is_some_and(|waits| waits.order < order && waits.at + GRACE > now)
        };
        !self
            .processes
            .iter()
            .any(|other| shares(other) && before(other))
    }

    fn cancel(&mut self, process: usize, now: u64) {
        let costs = self.processes[process].costs.clone();
        if let Some(waits) = self.processes[process].waits.take() {
            arrive(
                self.site
                    .leave(&Self::ask(&costs, &self.policy), waits.id, None),
            );
        }
        self.processes[process].ready = now;
        let latency = self.latency();
        self.schedule(now + latency + 1, process, Next::Call);
    }

    fn call(&mut self, process: usize, now: u64) -> Result<(), String> {
        let waits = self.processes[process].waits;
        if waits.is_none() {
            self.choose_weight(process);
        }
        let costs = self.processes[process].costs.clone();
        let ask = Self::ask(&costs, &self.policy);
        let entered = match waits {
            Some(waits) => {
                self.confirms += usize::from(now > self.first_burst_ends);
                arrive(self.site.confirm(&ask, waits.id))
            }
            None => arrive(self.site.enter(&ask)),
        };
        let back = self.latency();
        match entered.entry {
            AdmissionDecision::Go(permit) => {
                self.processes[process].permit = Some(permit);
                self.schedule(now + back, process, Next::Answer(now));
            }
            AdmissionDecision::Wait(reserved) => {
                let at = reserved.at.as_micros();
                self.note_wait(process, reserved.id, at, now)?;
                let wakes = at.max(now + back) + self.lateness() + self.latency();
                self.schedule(wakes, process, Next::Call);
            }
            other => return Err(format!("{other:?}")),
        }
        Ok(())
    }

    /// Chooses the weight of the next request of a process.
    fn choose_weight(&mut self, process: usize) {
        let costs = &self.processes[process].costs;
        let largest = costs.iter().map(|cost| cost.windows.largest_weight());
        let most = largest.min().unwrap_or(1);
        let weight = self.random.u32(1..=self.plan.weight).min(most);
        for cost in &mut self.processes[process].costs {
            cost.weight = weight;
        }
    }

    /// Records a reservation. The first in order must not be sent away twice.
    fn note_wait(&mut self, process: usize, id: u64, at: u64, now: u64) -> Result<(), String> {
        let waits = self.processes[process].waits;
        let expired = waits.is_some_and(|waits| waits.at + GRACE <= now);
        let kept = waits.filter(|_| !expired);
        if let Some(waits) = kept
            && waits.first
            && now >= waits.at
            && self.is_first(process, waits.order, now)
        {
            return Err(format!(
                "process {process} was first in order twice, came at {} \
                 and was sent away until {at}",
                now - START
            ));
        }
        let order = kept.map_or(self.made, |waits| waits.order);
        let first = self.is_first(process, order, now);
        self.processes[process].waits = Some(Waits {
            id,
            at,
            order,
            first,
        });
        Ok(())
    }

    /// A permit reaches its process, which sends at once, or gives it back if it was held up on the
    /// way.
    fn answered(&mut self, process: usize, given: u64, now: u64) {
        let costs = self.processes[process].costs.clone();
        let Some(permit) = self.processes[process].permit.take() else {
            return;
        };
        let waits = self.processes[process].waits.take();
        let pause = if self.plan.very_late > 0 && self.random.u32(..self.plan.very_late) == 0 {
            500_000
        } else {
            0
        };
        let now = now + pause;
        if now - given > TOO_OLD {
            self.clock.set(now);
            arrive(self.site.leave(
                &Self::ask(&costs, &self.policy),
                permit.id,
                Some(permit.stamp),
            ));
        } else {
            let due = waits.map_or(self.processes[process].ready, |waits| waits.at);
            for cost in &costs {
                self.used[cost.budget].push((given, given.saturating_sub(due), cost.weight));
            }
            if given > self.first_burst_ends {
                self.processes[process].permits += 1;
                self.permits += 1;
            }
        }
        self.processes[process].ready = given;
        let latency = self.latency();
        self.schedule(now + latency, process, Next::Call);
    }
}
