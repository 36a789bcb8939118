//! A site, and an independent record of what arrived at its origin.

use std::num::NonZeroU32;
use std::time::Duration;

use docstokg_policy::breaker::BreakerPolicy;
use docstokg_policy::rate::Window;
use docstokg_policy::site::{AdmissionDecision, AdmissionRequest, BudgetCost, Permit, Site};
use docstokg_policy::time::BootInstant;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{ask, at, cost, ms};

pub(super) const GUARD: Duration = Duration::from_millis(2);

/// A window of a few permits per a few milliseconds, so that requests collide.
fn any_window() -> impl Strategy<Value = Window> {
    (1u32..6, 5u64..60)
        .prop_map(|(limit, per)| Window::new(NonZeroU32::new(limit).expect("not zero"), ms(per)))
}

pub(super) fn any_budgets() -> impl Strategy<Value = Vec<Vec<Window>>> {
    vec(vec(any_window(), 1..3), 1..3)
}

/// What happens next.
#[derive(Clone, Debug)]
pub(super) enum LimiterStep {
    /// Time passes.
    Advance(u64),
    /// A request enters with a cost in the first budget or in all, and waits up to `bound`
    /// milliseconds.
    Enter { all: bool, weight: u32, bound: u64 },
    /// The n-th waiting request confirms.
    Confirm(usize),
    /// The n-th waiting request is cancelled.
    Cancel(usize),
    /// The n-th request with a permit has to dial.
    Dial(usize),
    /// The n-th dialling request is connected.
    Connected(usize),
    /// The n-th request that dials or is connected gets its answer.
    Answered(usize),
    /// The n-th request with a permit gives it back unused.
    GiveBack(usize),
}

pub(super) fn any_step() -> impl Strategy<Value = LimiterStep> {
    prop_oneof![
        4 => (0u64..30).prop_map(LimiterStep::Advance),
        6 => (any::<bool>(), 1u32..4, prop_oneof![Just(0), 0u64..200])
            .prop_map(|(all, weight, bound)| LimiterStep::Enter { all, weight, bound }),
        4 => (0usize..4).prop_map(LimiterStep::Confirm),
        1 => (0usize..4).prop_map(LimiterStep::Cancel),
        1 => (0usize..4).prop_map(LimiterStep::Dial),
        1 => (0usize..4).prop_map(LimiterStep::Connected),
        2 => (0usize..4).prop_map(LimiterStep::Answered),
        1 => (0usize..4).prop_map(LimiterStep::GiveBack),
    ]
}

/// A request with a permit, and how far it has come.
struct Sent {
    costs: Vec<BudgetCost>,
    permit: Permit,
    stage: Stage,
}

#[derive(PartialEq)]
enum Stage {
    Permitted,
    Dialling,
    Connected(BootInstant),
    Done,
}

/// The site under test, and a record of what arrived that is independent of its state.
#[derive(Default)]
pub(super) struct LimiterWorld {
    pub(super) site: Site,
    /// What arrived at the origin, by budget.
    pub(super) used: Vec<Vec<BootInstant>>,
    pub(super) waiting: Vec<(Vec<BudgetCost>, u64, BootInstant)>,
    sent: Vec<Sent>,
}

/// The longest time from the connection until the origin has read the request.
const LONGEST_DELIVERY: Duration = Duration::from_millis(25);

impl LimiterStep {
    /// Tells whether it is about arriving, waiting and leaving, and not about connections.
    fn is_about_waiting(&self) -> bool {
        matches!(
            self,
            Self::Advance(_) | Self::Enter { .. } | Self::Confirm(_) | Self::Cancel(_)
        )
    }
}

impl LimiterWorld {
    /// Lets every waiting request confirm at its instant, up to `until`, in the order of the
    /// instants.
    pub(super) fn confirm_due(
        &mut self,
        policy: &BreakerPolicy,
        until: BootInstant,
    ) -> Result<(), TestCaseError> {
        let mut asks = 0;
        loop {
            self.waiting.sort_by_key(|(_, _, due)| *due);
            let Some((costs, id, due)) = self
                .waiting
                .first()
                .cloned()
                .filter(|(_, _, due)| *due <= until)
            else {
                return Ok(());
            };
            self.waiting.remove(0);
            asks += 1;
            prop_assert!(asks < 1_000, "requests that wait push each other back");
            match self
                .site
                .confirm(
                    &AdmissionRequest {
                        latest: BootInstant::FAR,
                        ..ask(&costs, policy)
                    },
                    id,
                    due,
                )
                .entry
            {
                AdmissionDecision::Go(permit) => self.go(costs, permit, due),
                AdmissionDecision::Wait(reserved) => {
                    self.waiting.push((costs, reserved.id, reserved.at));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Lets these steps happen, and returns the world after them and the time.
    pub(super) fn after<'a>(
        budgets: &[Vec<Window>],
        steps: impl IntoIterator<Item = &'a LimiterStep>,
    ) -> (Self, BootInstant) {
        let mut world = Self {
            used: vec![Vec::new(); budgets.len()],
            ..Self::default()
        };
        world.site.ensure_budgets(budgets.len());
        let mut now = at(0);
        for step in steps {
            if let LimiterStep::Advance(millis) = step {
                now += ms(*millis);
            }
            world.apply(step, budgets, now);
        }
        (world, now)
    }

    /// Lets those of the steps happen that are about waiting.
    pub(super) fn after_waiting(
        budgets: &[Vec<Window>],
        steps: &[LimiterStep],
    ) -> (Self, BootInstant) {
        Self::after(budgets, steps.iter().filter(|step| step.is_about_waiting()))
    }

    fn note_use(&mut self, costs: &[BudgetCost], at: BootInstant) {
        for cost in costs {
            for _ in 0..cost.weight {
                self.used[cost.budget].push(at);
            }
        }
    }

    fn unnote(&mut self, costs: &[BudgetCost], at: BootInstant) {
        for cost in costs {
            for _ in 0..cost.weight {
                let index = self.used[cost.budget]
                    .iter()
                    .rposition(|used| *used == at)
                    .expect("noted before");
                self.used[cost.budget].remove(index);
            }
        }
    }

    fn go(&mut self, costs: Vec<BudgetCost>, permit: Permit, now: BootInstant) {
        self.note_use(&costs, now);
        self.sent.push(Sent {
            costs,
            permit,
            stage: Stage::Permitted,
        });
    }

    /// Lets one step happen.
    pub(super) fn apply(&mut self, step: &LimiterStep, budgets: &[Vec<Window>], now: BootInstant) {
        match step {
            LimiterStep::Advance(_) => {}
            LimiterStep::Enter { all, weight, bound } => {
                let largest = smallest_limit(budgets);
                let count = if *all { budgets.len() } else { 1 };
                let costs: Vec<BudgetCost> = (0..count)
                    .map(|budget| cost(budget, (*weight).min(largest), &budgets[budget], GUARD))
                    .collect();
                self.enter(costs, ms(*bound), now);
            }
            LimiterStep::Confirm(n) => self.confirm(*n, now),
            LimiterStep::Cancel(n) => self.cancel(*n),
            LimiterStep::Dial(n) => self.dial(*n, now),
            LimiterStep::GiveBack(n) => self.give_back(*n, now),
            LimiterStep::Connected(n) => self.connected(*n, now),
            LimiterStep::Answered(n) => self.answered(*n, now),
        }
    }

    fn enter(&mut self, costs: Vec<BudgetCost>, bound: Duration, now: BootInstant) {
        let policy = BreakerPolicy::default();
        let question = AdmissionRequest {
            latest: now + bound,
            ..ask(&costs, &policy)
        };
        match self.site.enter(&question, now).entry {
            AdmissionDecision::Go(permit) => self.go(costs, permit, now),
            AdmissionDecision::Wait(reserved) => {
                assert!(reserved.at > now && reserved.at <= now + bound);
                self.waiting.push((costs, reserved.id, reserved.at));
            }
            AdmissionDecision::Refused(refusal) => assert!(refusal.until > now + bound),
            other => panic!("{other:?}"),
        }
    }

    fn confirm(&mut self, n: usize, now: BootInstant) {
        if self.waiting.is_empty() {
            return;
        }
        let policy = BreakerPolicy::default();
        let (costs, id, _) = self.waiting.remove(n % self.waiting.len());
        let question = AdmissionRequest {
            latest: BootInstant::FAR,
            ..ask(&costs, &policy)
        };
        match self.site.confirm(&question, id, now).entry {
            AdmissionDecision::Go(permit) => self.go(costs, permit, now),
            AdmissionDecision::Wait(reserved) => {
                self.waiting.push((costs, reserved.id, reserved.at));
            }
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn cancel(&mut self, n: usize) {
        if !self.waiting.is_empty() {
            let (costs, id, _) = self.waiting.remove(n % self.waiting.len());
            self.site
                .leave(&ask(&costs, &BreakerPolicy::default()), id, None);
        }
    }

    fn dial(&mut self, n: usize, now: BootInstant) {
        let Some((index, costs, permit)) = self.just_permitted(n, now) else {
            return;
        };
        self.unnote(&costs, now);
        let policy = BreakerPolicy::default();
        self.site
            .hold(&ask(&costs, &policy), &permit, BootInstant::FAR);
        self.sent[index].stage = Stage::Dialling;
    }

    fn give_back(&mut self, n: usize, now: BootInstant) {
        let Some((index, costs, permit)) = self.just_permitted(n, now) else {
            return;
        };
        self.unnote(&costs, now);
        let policy = BreakerPolicy::default();
        self.site
            .leave(&ask(&costs, &policy), permit.id, Some(permit.at));
        self.sent[index].stage = Stage::Done;
    }

    /// Returns the n-th request with a permit, if it got it at this instant: later it counts as
    /// sent.
    fn just_permitted(
        &self,
        n: usize,
        now: BootInstant,
    ) -> Option<(usize, Vec<BudgetCost>, Permit)> {
        self.in_stage(n, |stage| *stage == Stage::Permitted)
            .filter(|(_, _, permit)| permit.at == now)
    }

    fn connected(&mut self, n: usize, now: BootInstant) {
        let Some((index, costs, permit)) = self.in_stage(n, |stage| *stage == Stage::Dialling)
        else {
            return;
        };
        let policy = BreakerPolicy::default();
        self.site
            .sent(&ask(&costs, &policy), &permit, LONGEST_DELIVERY, now);
        self.sent[index].stage = Stage::Connected(now);
    }

    fn answered(&mut self, n: usize, now: BootInstant) {
        let is_open = |stage: &Stage| matches!(stage, Stage::Dialling | Stage::Connected(_));
        let Some((index, costs, permit)) = self.in_stage(n, is_open) else {
            return;
        };
        let policy = BreakerPolicy::default();
        self.site.stamp(&ask(&costs, &policy), &permit, now);
        // The origin read it at some instant up to now, and no later than the longest delivery
        // after the connection.
        let seen = match self.sent[index].stage {
            Stage::Connected(since) => now.min(since + LONGEST_DELIVERY),
            _ => now,
        };
        self.sent[index].stage = Stage::Done;
        self.note_use(&costs, seen);
    }

    fn in_stage(
        &self,
        n: usize,
        is_wanted: impl Fn(&Stage) -> bool,
    ) -> Option<(usize, Vec<BudgetCost>, Permit)> {
        let wanted: Vec<usize> = (0..self.sent.len())
            .filter(|index| is_wanted(&self.sent[*index].stage))
            .collect();
        let index = *wanted.get(n % wanted.len().max(1))?;
        let sent = &self.sent[index];
        Some((index, sent.costs.clone(), sent.permit.clone()))
    }
}

/// Returns the largest weight that fits every window.
pub(super) fn smallest_limit(budgets: &[Vec<Window>]) -> u32 {
    let limits = budgets.iter().flatten().map(|window| window.limit.get());
    limits.min().expect("a window")
}

/// Returns costs of the same weight in every budget.
pub(super) fn costs_in_all(budgets: &[Vec<Window>], weight: u32) -> Vec<BudgetCost> {
    let of_budget = |(budget, windows): (usize, &Vec<Window>)| cost(budget, weight, windows, GUARD);
    budgets.iter().enumerate().map(of_budget).collect()
}
