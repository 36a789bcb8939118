//! A model of processes that share a limit: each has more to send than the limit allows, wakes
//! late, pauses, gives up or dies. It judges the order among waiting requests on every store:
//! nothing is permitted too much, and everyone gets a turn.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use docstokg_policy::breaker::BreakerPolicy;
use docstokg_policy::host::Host;
use docstokg_policy::rate::{Window, parse_rates};
use docstokg_policy::role::Role;
use docstokg_policy::site::{Ask, Cost, Entry, Permit};
use docstokg_policy::time::{BootInstant, Clock, Timestamp};
use docstokg_policy::windows::Windows;
use docstokg_stores::conformance::arrive;
use docstokg_stores::memory::MemoryStore;
use docstokg_stores::multiprocess::MultiprocessStore;
use docstokg_stores::redis::RedisStore;
use docstokg_stores::sqlite::SqliteStore;
use docstokg_stores::{BudgetKey, SiteHandle, StateStore};
use fastrand::Rng;

use crate::server::Server;

const GUARD: Duration = Duration::from_millis(10);
/// How long a reservation outlives its instant.
const GRACE: u64 = 3_000_000;
/// A permit that is older than this when it would be sent is given back.
const TOO_OLD: u64 = 100_000;
const START: u64 = 1_700_000_000_000_000;

/// A clock that the model sets.
struct Hand(AtomicU64);

impl Clock for Hand {
    fn boot(&self) -> BootInstant {
        BootInstant::from_micros(self.0.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(0)
    }
}

/// What one run of the model is like.
#[derive(Clone, Debug)]
struct Plan {
    seed: u64,
    processes: usize,
    /// The limits of one or two budgets.
    rates: Vec<&'static str>,
    /// Processes charge one budget, the other, or both; else all of them.
    mixed: bool,
    /// The largest weight of a request.
    weight: u32,
    /// How late a sleep ends at most, in microseconds.
    late: u64,
    /// One sleep in so many ends half a second late; 0 for none.
    very_late: u32,
    /// How long a call of the store takes at most, each way.
    latency: u64,
    /// How many processes die while they wait.
    deaths: usize,
    /// One wait in so many is given up; 0 for none.
    cancels: u32,
    /// How many permits each process is to have, on average, after the first burst.
    permits: usize,
}

impl Plan {
    fn plain(rates: &'static str, processes: usize, late: u64) -> Self {
        Self {
            seed: 1,
            processes,
            rates: vec![rates],
            mixed: false,
            weight: 1,
            late,
            very_late: 0,
            latency: 0,
            deaths: 0,
            cancels: 0,
            permits: 200,
        }
    }

    /// Draws a plan.
    fn any(seed: u64) -> Self {
        const RATES: [&str; 12] = [
            "1/SECOND",
            "2/SECOND",
            "1/3SECOND",
            "3/SECOND+20/10SECOND",
            "5/SECOND",
            "10/SECOND",
            "25/SECOND+60/5SECOND",
            "50/SECOND",
            "8/SECOND+300/MINUTE",
            "7/2SECOND+30/10SECOND+100/MINUTE",
            "1/100SECOND",
            "20/SECOND+5000/HOUR",
        ];
        let mut random = Rng::with_seed(seed);
        let two = random.u8(..3) == 0;
        let rates = (0..if two { 2 } else { 1 })
            .map(|_| RATES[random.usize(..RATES.len())])
            .collect();
        Self {
            seed,
            processes: random.usize(1..=20),
            rates,
            mixed: two && random.bool(),
            weight: if random.u8(..4) == 0 { 3 } else { 1 },
            late: [0, 1_000, 20_000, 50_000][random.usize(..4)],
            very_late: [0, 0, 200][random.usize(..3)],
            latency: [0, 200, 5_000][random.usize(..3)],
            deaths: if random.u8(..4) == 0 {
                random.usize(1..=3)
            } else {
                0
            },
            cancels: [0, 0, 20][random.usize(..3)],
            permits: 12,
        }
    }

    fn windows(&self) -> Vec<Vec<Window>> {
        self.rates
            .iter()
            .map(|rates| parse_rates(rates).expect("rates"))
            .collect()
    }
}

/// What a process does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// It calls the store: the call arrives now.
    Call,
    /// The permit that it was given at an instant reaches it.
    Answer(u64),
}

struct Process {
    costs: Vec<Cost>,
    waits: Option<Waits>,
    permit: Option<Permit>,
    /// When it had nothing more to wait for but the store.
    ready: u64,
    /// Permits after the first burst, which goes to the process that comes first: nobody waits yet.
    permits: usize,
    dead: bool,
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
type Use = (u64, u64, u32);

struct Model<'a> {
    plan: &'a Plan,
    site: &'a dyn SiteHandle,
    clock: &'a Hand,
    policy: BreakerPolicy,
    random: Rng,
    processes: Vec<Process>,
    events: BinaryHeap<Reverse<(u64, u64, usize, Next)>>,
    made: u64,
    used: Vec<Vec<Use>>,
    confirms: usize,
    permits: usize,
    first_burst_ends: u64,
}

/// What a run came to.
struct Outcome {
    permits: Vec<usize>,
    confirms_per_permit: f64,
    /// The largest share of a budget's rate that was used, after subtracting measured lateness.
    share: f64,
    elapsed: Duration,
}

impl<'a> Model<'a> {
    fn new(plan: &'a Plan, site: &'a dyn SiteHandle, clock: &'a Hand) -> Self {
        clock.0.store(START, Ordering::SeqCst);
        let names = [
            BudgetKey::Role(Host::parse("a.example").expect("a host"), Role::Metadata),
            BudgetKey::Common,
        ];
        let windows: Vec<Arc<Windows>> = plan
            .windows()
            .into_iter()
            .map(|list| Arc::new(Windows::new(list, GUARD)))
            .collect();
        let cost = |place: usize| Cost {
            budget: site.budget(&names[place]),
            weight: 1,
            windows: Arc::clone(&windows[place]),
            slots: None,
        };
        let all: Vec<Cost> = (0..windows.len()).map(cost).collect();
        let processes = (0..plan.processes).map(|number| {
            let costs = match number % 3 {
                0 if plan.mixed => all[..1].to_vec(),
                1 if plan.mixed => all[1..].to_vec(),
                _ => all.clone(),
            };
            Process {
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
            let moment = model.random.u64(..2_000);
            model.schedule(START + moment, process, Next::Call);
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
    fn run(mut self) -> Result<Outcome, String> {
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
            self.clock.0.store(at, Ordering::SeqCst);
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
        self.judge()
    }

    fn ask<'b>(costs: &'b [Cost], policy: &'b BreakerPolicy) -> Ask<'b> {
        Ask {
            latest: BootInstant::FAR,
            ..Ask::at_once(costs, policy)
        }
    }

    /// Tells whether a process is the first in order among those that wait for a budget it charges.
    fn is_first(&self, process: usize, order: u64, now: u64) -> bool {
        let mine = &self.processes[process].costs;
        let shares = |other: &Process| {
            other
                .costs
                .iter()
                .any(|cost| mine.iter().any(|own| own.budget == cost.budget))
        };
        let before = |other: &Process| {
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
        let costs = self.processes[process].costs.clone();
        let waits = self.processes[process].waits;
        let costs: Vec<Cost> = if waits.is_some() {
            costs
        } else {
            let most = costs
                .iter()
                .map(|cost| cost.windows.largest_weight())
                .min()
                .unwrap_or(1);
            let weight = self.random.u32(1..=self.plan.weight).min(most);
            costs
                .into_iter()
                .map(|cost| Cost { weight, ..cost })
                .collect()
        };
        self.processes[process].costs.clone_from(&costs);
        let ask = Self::ask(&costs, &self.policy);
        let entered = match waits {
            Some(waits) => {
                self.confirms += usize::from(now > self.first_burst_ends);
                arrive(self.site.confirm(&ask, waits.id))
            }
            None => arrive(self.site.enter(&ask)),
        };
        let expired = waits.is_some_and(|waits| waits.at + GRACE <= now);
        let first = waits.is_some_and(|waits| !expired && self.is_first(process, waits.order, now));
        let back = self.latency();
        match entered.entry {
            Entry::Go(permit) => {
                self.processes[process].permit = Some(permit);
                self.schedule(now + back, process, Next::Answer(now));
            }
            Entry::Wait(reserved) => {
                let at = reserved.at.as_micros();
                if let Some(waits) = waits
                    && waits.first
                    && first
                    && now >= waits.at
                {
                    return Err(format!(
                        "process {process} was first in order twice, came at {} and was sent away until {at}",
                        now - START
                    ));
                }
                let order = waits
                    .filter(|_| !expired)
                    .map_or(self.made, |waits| waits.order);
                let first = self.is_first(process, order, now);
                self.processes[process].waits = Some(Waits {
                    id: reserved.id,
                    at,
                    order,
                    first,
                });
                let wakes = at.max(now + back) + self.lateness() + self.latency();
                self.schedule(wakes, process, Next::Call);
            }
            other => return Err(format!("{other:?}")),
        }
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
            self.clock.0.store(now, Ordering::SeqCst);
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

    fn judge(self) -> Result<Outcome, String> {
        // Where a request charges two budgets the slower one is the limit.
        let mut share = 0.0f64;
        for (budget, windows) in self.plan.windows().iter().enumerate() {
            let mut units: Vec<(u64, u64)> = self.used[budget]
                .iter()
                .flat_map(|(at, late, weight)| std::iter::repeat_n((*at, *late), *weight as usize))
                .collect();
            units.sort_unstable();
            for window in windows {
                let (limit, width) = (
                    window.limit.get() as usize,
                    (window.per + GUARD).as_micros(),
                );
                for group in units.windows(limit + 1) {
                    let apart = u128::from(group[limit].0 - group[0].0);
                    if apart < width {
                        return Err(format!("{} within {apart} us at {window}", limit + 1));
                    }
                }
            }
            // Too few uses say nothing.
            share = share.max(share_used(&units, windows).unwrap_or(1.0));
        }
        let permits = self
            .processes
            .iter()
            .filter(|process| !process.dead)
            .map(|process| process.permits)
            .collect();
        #[expect(clippy::cast_precision_loss, reason = "small counts")]
        let confirms_per_permit = self.confirms as f64 / self.permits as f64;
        let elapsed = Duration::from_micros(self.clock.0.load(Ordering::SeqCst) - START);
        Ok(Outcome {
            permits,
            confirms_per_permit,
            share,
            elapsed,
        })
    }
}

/// Returns the share of the rate of the slowest window that was used: from the last use back in
/// steps of the limit, how long that takes at least, and how long it took less the lateness of the
/// uses on the way.
#[expect(clippy::cast_precision_loss, reason = "spans of minutes")]
fn share_used(units: &[(u64, u64)], windows: &[Window]) -> Option<f64> {
    let slowest = windows
        .iter()
        .max_by(|one, other| per_permit(one).total_cmp(&per_permit(other)))?;
    let limit = slowest.limit.get() as usize;
    let chain: Vec<&(u64, u64)> = units.iter().rev().step_by(limit).collect();
    let (last, first) = (chain.first()?, chain.last()?);
    let at_least = (slowest.per + GUARD).as_micros() as f64 * (chain.len() - 1) as f64;
    let late: u64 = chain
        .iter()
        .take(chain.len() - 1)
        .map(|(_, late)| late)
        .sum();
    let took = (last.0 - first.0).saturating_sub(late) as f64;
    (chain.len() > 8).then(|| (at_least / took.max(1.0)).min(1.0))
}

fn per_permit(window: &Window) -> f64 {
    window.per.as_secs_f64() / f64::from(window.limit.get())
}

/// Runs a plan on a site, and returns what it came to.
fn run(plan: &Plan, site: &dyn SiteHandle, clock: &Hand) -> Outcome {
    Model::new(plan, site, clock)
        .run()
        .unwrap_or_else(|why| panic!("{why}\n{plan:?}"))
}

/// Checks what holds for every plan, and for those without deaths, mixtures and weights the shares
/// as well.
fn check(plan: &Plan, outcome: &Outcome) {
    assert!(
        outcome.confirms_per_permit <= 2.6,
        "{} confirms per permit: {plan:?}",
        outcome.confirms_per_permit
    );
    let undisturbed =
        plan.deaths == 0 && plan.very_late == 0 && plan.cancels == 0 && plan.weight == 1;
    if undisturbed && !plan.mixed {
        assert!(
            outcome.share >= 0.96,
            "{:.3} of the rate in {:?}: {plan:?}",
            outcome.share,
            outcome.elapsed
        );
    }
    let (most, least) = (
        outcome.permits.iter().max().copied().unwrap_or(0),
        outcome.permits.iter().min().copied().unwrap_or(0),
    );
    if !plan.mixed && outcome.elapsed > Duration::from_secs(5) {
        assert!(
            least > 0,
            "a process got nothing: {:?} {plan:?}",
            outcome.permits
        );
    }
    if least >= 50 && !plan.mixed && plan.weight == 1 && plan.cancels == 0 {
        #[expect(clippy::cast_precision_loss, reason = "small counts")]
        let ratio = most as f64 / least as f64;
        assert!(ratio <= 1.3, "{:?}: {plan:?}", outcome.permits);
    }
}

/// Limits around and below the number of processes, with every lateness, long enough to judge
/// fairness.
fn long_plans() -> Vec<Plan> {
    let mut plans = Vec::new();
    for late in [0, 1_000, 20_000, 50_000] {
        for (rates, processes) in [
            ("1/SECOND", 1),
            ("1/SECOND", 2),
            ("1/SECOND", 8),
            ("2/SECOND", 3),
            ("2/SECOND", 20),
            ("10/SECOND", 4),
            ("50/SECOND", 4),
            ("50/SECOND", 20),
        ] {
            plans.push(Plan::plain(rates, processes, late));
        }
    }
    plans
}

fn on_memory(plan: &Plan) -> Outcome {
    let clock = Arc::new(Hand(AtomicU64::new(START)));
    let store = MemoryStore::new(Arc::clone(&clock) as Arc<dyn Clock>);
    run(plan, &*store.site(&"a.example".into()), &clock)
}

#[test]
fn processes_that_wait_take_turns_and_use_the_whole_rate() {
    for plan in long_plans() {
        check(&plan, &on_memory(&plan));
    }
}

#[test]
fn whatever_is_drawn_nothing_is_exceeded_and_everyone_gets_through() {
    let plans = std::env::var("DOCSTOKG_TEST_PLANS")
        .ok()
        .and_then(|plans| plans.parse().ok())
        .unwrap_or(400);
    let mut confirms = 0.0;
    for seed in 0..plans {
        let plan = Plan::any(seed);
        let outcome = on_memory(&plan);
        check(&plan, &outcome);
        confirms += outcome.confirms_per_permit;
    }
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    let average = confirms / plans as f64;
    assert!(average <= 2.0, "{average} confirms per permit on average");
}

#[test]
fn the_script_keeps_the_order_as_well() {
    let server = Server::start();
    let clock = Arc::new(Hand(AtomicU64::new(START)));
    let store =
        RedisStore::open(&server.dsn(), Arc::clone(&clock) as Arc<dyn Clock>).expect("a store");
    let long = long_plans()
        .into_iter()
        .filter(|plan| plan.processes <= 8 && plan.late != 1_000);
    for (number, plan) in (0..24).map(Plan::any).chain(long).enumerate() {
        let (site, _) = store.site_on_own_time(&format!("order-{number}").as_str().into());
        check(&plan, &run(&plan, &*site, &clock));
    }
}

#[test]
fn stores_in_files_keep_the_order_as_well() {
    let directory = tempfile::tempdir().expect("a directory");
    for (number, plan) in (0..12)
        .map(Plan::any)
        .chain([Plan::plain("2/SECOND", 8, 20_000)])
        .enumerate()
    {
        let clock = Arc::new(Hand(AtomicU64::new(START)));
        let shared = || Arc::clone(&clock) as Arc<dyn Clock>;
        let mapped =
            MultiprocessStore::open(&directory.path().join(format!("{number}.shm")), shared())
                .expect("a store");
        check(
            &plan,
            &run(&plan, &*mapped.site(&"a.example".into()), &clock),
        );
        let database =
            SqliteStore::open(&directory.path().join(format!("{number}.sqlite")), shared())
                .expect("a store");
        check(
            &plan,
            &run(&plan, &*database.site(&"a.example".into()), &clock),
        );
    }
}
