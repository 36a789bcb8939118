//! Processes that find the limit of a host by its refusals, in virtual time: each store permits the
//! same requests at the same instants.

use std::num::NonZeroU32;
use std::sync::{Arc, Barrier};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use docstokg_policy::breaker::BreakerPolicy;
use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::host::Host;
use docstokg_policy::host_model::learned::{LearnMode, LearnPolicy, LearnedLimits};
use docstokg_policy::rate::parse_rates;
use docstokg_policy::role::Role;
use docstokg_policy::site::{
    AdmissionDecision, AdmissionRequest, AttemptResult, BudgetCost, LanePolicy, Patience, Permit,
};
use docstokg_policy::time::BootInstant;
use docstokg_policy::windows::Windows;
use docstokg_stores::conformance::arrive;
use docstokg_stores::memory::MemoryStore;
use docstokg_stores::redis::RedisStore;
use docstokg_stores::sqlite::SqliteStore;
use docstokg_stores::{BudgetKey, SiteHandle, StateStore};

use crate::clock::ManualClock;
use crate::server::Server;

// Real processes in real time, one of which is killed.
mod real_time;

const START: u64 = 1_700_000_000_000_000;
const LATENCY: Duration = Duration::from_millis(50);

/// What the host admits, and what happened there.
#[derive(Clone, Debug, Default, PartialEq)]
struct Origin {
    limit: usize,
    per: Duration,
    admitted: Vec<BootInstant>,
    refused: Vec<BootInstant>,
}

impl Origin {
    fn admits(limit: usize, per: Duration) -> Self {
        Self {
            limit,
            per,
            ..Self::default()
        }
    }

    fn serves(&mut self, now: BootInstant) -> bool {
        let recent = |at: &&BootInstant| now.since(**at) < self.per;
        let is_free = self.admitted.iter().rev().take_while(recent).count() < self.limit;
        let list = if is_free {
            &mut self.admitted
        } else {
            &mut self.refused
        };
        list.push(now);
        is_free
    }
}

/// What a process does next.
enum Doing {
    Asks,
    Waits(u64),
    Awaits(Box<Permit>, bool),
}

struct SharedLearningProcess {
    site: Arc<dyn SiteHandle>,
    costs: Vec<BudgetCost>,
    at: BootInstant,
    doing: Doing,
    served: u32,
}

struct Run {
    clock: Arc<ManualClock>,
    processes: Vec<SharedLearningProcess>,
    breaker: BreakerPolicy,
    policy: LearnPolicy,
    origin: Origin,
}

impl Run {
    fn new(
        clock: &Arc<ManualClock>,
        sites: Vec<Arc<dyn SiteHandle>>,
        (mode, rates): (LearnMode, &str),
        origin: Origin,
    ) -> Self {
        let windows = Arc::new(Windows::new(
            parse_rates(rates).expect("rates"),
            Duration::from_millis(10),
        ));
        let host = Host::parse("a.example").expect("a host");
        let process = |(number, site): (u64, Arc<dyn SiteHandle>)| {
            let cost = BudgetCost {
                budget: site.budget(&BudgetKey::Role(host.clone(), Role::Metadata)),
                weight: 1,
                windows: Arc::clone(&windows),
                slots: None,
            };
            SharedLearningProcess {
                site,
                costs: vec![cost],
                at: BootInstant::from_micros(clock.micros() + number),
                doing: Doing::Asks,
                served: 0,
            }
        };
        Self {
            clock: Arc::clone(clock),
            processes: (0..).zip(sites).map(process).collect(),
            breaker: BreakerPolicy {
                one_failure_per_epoch: true,
                jitter: Duration::ZERO,
                ..BreakerPolicy::default()
            },
            policy: LearnPolicy {
                mode,
                slowest: Duration::from_secs(60),
            },
            origin,
        }
    }

    /// Lets the process that is due first do what it does next.
    fn step(&mut self) {
        let lane = self.lane();
        let due = self.processes.iter_mut().min_by_key(|process| process.at);
        let process = due.expect("a process");
        let now = process.at;
        self.clock.set(now.as_micros());
        let ask = AdmissionRequest {
            latest: BootInstant::FAR,
            patience: Patience::Wait,
            asked: now,
            jitter_sample: 0.5,
            ..AdmissionRequest::at_once(&process.costs, lane)
        };
        let entered = match &process.doing {
            Doing::Asks => arrive(process.site.enter(&ask)),
            Doing::Waits(id) => arrive(process.site.confirm(&ask, *id)),
            Doing::Awaits(permit, is_served) => {
                process.served += u32::from(*is_served);
                let report = report(permit, *is_served);
                arrive(process.site.settle(&ask, permit, &report));
                process.doing = Doing::Asks;
                return;
            }
        };
        let at_least = now + Duration::from_millis(1);
        match entered.entry {
            AdmissionDecision::Go(permit) => {
                let is_served = self.origin.serves(now);
                process.doing = Doing::Awaits(Box::new(permit), is_served);
                process.at = now + LATENCY;
            }
            AdmissionDecision::Wait(reserved) => {
                process.doing = Doing::Waits(reserved.id);
                process.at = reserved.at.max(at_least);
            }
            AdmissionDecision::WaitForBreaker { until, .. } => {
                process.doing = Doing::Asks;
                process.at = until.max(at_least);
            }
            other => panic!("{other:?}"),
        }
    }

    fn until_served(&mut self, count: u32) {
        let mut steps = 0;
        while self.served().iter().sum::<u32>() < count {
            self.step();
            steps += 1;
            assert!(steps < 100_000, "{:?}", self.served());
        }
    }

    fn served(&self) -> Vec<u32> {
        self.processes
            .iter()
            .map(|process| process.served)
            .collect()
    }
}

/// What a run on one store came to.
struct Ended {
    name: &'static str,
    origin: Origin,
    shares: Vec<u32>,
    learned: LearnedLimits,
}

/// Runs the same on memory, on SQLite and on Redis with a store for each process.
fn on_every_store(
    count: usize,
    rule: (LearnMode, &str),
    origin: &Origin,
    served: u32,
) -> Vec<Ended> {
    let directory = tempfile::tempdir().expect("a directory");
    let redis = Server::start();
    let key = "a.example".into();
    ["memory", "sqlite", "redis"]
        .into_iter()
        .map(|name| {
            let clock = ManualClock::at(START);
            let memory = MemoryStore::new(clock.shared());
            let site = |_| match name {
                "memory" => memory.site(&key),
                "sqlite" => {
                    let file = directory.path().join("state.sqlite");
                    let store = SqliteStore::open(&file, clock.shared()).expect("a store");
                    store.site(&key)
                }
                _ => {
                    let store = RedisStore::open(&redis.dsn(), clock.shared());
                    store.expect("a store").site_on_own_time(&key)
                }
            };
            let sites = (0..count).map(site).collect();
            let mut run = Run::new(&clock, sites, rule, origin.clone());
            run.until_served(served);
            let view = arrive(run.processes[count - 1].site.view());
            Ended {
                name,
                shares: run.served(),
                learned: view.site.learned().expect("something is learned").clone(),
                origin: run.origin,
            }
        })
        .collect()
}

#[test]
fn ten_processes_share_a_hidden_limit_equally_on_every_store() {
    let up_to = LearnMode::UpTo("50/SECOND".parse().expect("a rate"));
    let hidden = Origin::admits(20, Duration::from_secs(2));
    let runs = on_every_store(10, (up_to, "50/SECOND"), &hidden, 600);
    for run in &runs {
        let (name, shares) = (run.name, &run.shares);
        assert!(
            shares.iter().all(|share| (54..=66).contains(share)),
            "{name}: {shares:?}"
        );
        let refused = run.origin.refused.len();
        assert!(refused <= 25, "{name}: {refused} refused");
        assert_eq!(run.origin, runs[0].origin, "{name} and memory");
    }
}

#[test]
fn a_limit_is_confirmed_at_the_same_instant_on_every_store() {
    let hidden = Origin::admits(4, Duration::from_secs(1));
    let runs = on_every_store(2, (LearnMode::Tighten, "10/SECOND"), &hidden, 400);
    for run in &runs {
        let (name, limits) = (run.name, words(&run.learned));
        assert!(!limits.is_empty(), "{name}: a limit is confirmed");
        assert_eq!(limits, words(&runs[0].learned), "{name} and memory");
        assert_eq!(run.origin, runs[0].origin, "{name} and memory");
    }
}

fn words(learned: &LearnedLimits) -> Vec<String> {
    learned.limits().map(ToString::to_string).collect()
}

/// At one instant a learned limit has room for so many requests, however many processes ask for them
/// at the same time.
#[test]
fn processes_that_race_take_no_more_than_one_alone_would() {
    const RACERS: usize = 6;
    let redis = Server::start();
    let clock = ManualClock::at(START);
    let key = "a.example".into();
    let hidden = Origin::admits(4, Duration::from_secs(1));
    let rule = (LearnMode::Tighten, "10/SECOND");
    let stores: Vec<RedisStore> = (0..RACERS)
        .map(|_| RedisStore::open(&redis.dsn(), clock.shared()).expect("a store"))
        .collect();
    let sites = stores.iter().map(|store| store.site_on_own_time(&key));
    let memory = MemoryStore::new(clock.shared());
    let mut race = Run::new(&clock, sites.collect(), rule, hidden.clone());
    race.until_served(200);
    clock.set(START);
    let alone = vec![memory.site(&key); RACERS];
    let mut alone = Run::new(&clock, alone, rule, hidden);
    alone.until_served(200);
    let mut total = 0;
    for round in 0..120 {
        clock.advance(70_000);
        let permits = race.all_at_once();
        let expected = alone.one_by_one();
        assert_eq!(permits.len(), expected.len(), "round {round}");
        total += permits.len();
        clock.advance(20_000);
        race.settle_all(permits);
        alone.settle_all(expected);
    }
    assert!(
        (15..=60).contains(&total),
        "{total} in eleven seconds of four"
    );
}

/// A process that still knows what another one has had forgotten learns from its next refusal as
/// every other process would.
#[test]
fn a_refusal_after_all_was_forgotten_begins_with_the_history() {
    let redis = Server::start();
    let clock = ManualClock::at(START);
    let key = "a.example".into();
    let hidden = Origin::admits(3, Duration::from_secs(1));
    let rule = (LearnMode::Tighten, "30/SECOND");
    let stores = [(), ()].map(|()| RedisStore::open(&redis.dsn(), clock.shared()));
    let sites = stores.map(|store| store.expect("a store").site_on_own_time(&key));
    let memory = vec![MemoryStore::new(clock.shared()).site(&key); 2];
    let settled = [sites.to_vec(), memory].map(|sites| {
        clock.set(START);
        let mut run = Run::new(&clock, sites, rule, hidden.clone());
        run.breaker.fail_max = NonZeroU32::MIN.saturating_add(1);
        run.breaker.one_failure_per_epoch = false;
        let permits: Vec<_> = (0..8).filter_map(|_| run.ask_at_once(0)).collect();
        clock.advance(10_000);
        let ask = AdmissionRequest {
            jitter_sample: 0.5,
            ..AdmissionRequest::at_once(&run.processes[0].costs, run.lane())
        };
        let settle = |permit: &Permit| {
            let site = &run.processes[0].site;
            arrive(site.settle(&ask, permit, &report(permit, false)))
        };
        let first = settle(&permits[3].1);
        assert!(arrive(run.processes[1].site.forget_learned()));
        clock.advance(1_000);
        let second = settle(&permits[4].1);
        let view = arrive(run.processes[1].site.view());
        (first, second, view.site.learned().cloned())
    });
    assert!(settled[0].1.open_until.is_some(), "{:?}", settled[0].1);
    assert_eq!(settled[0], settled[1]);
}

impl Run {
    /// Returns the policy of the processes.
    fn lane(&self) -> LanePolicy {
        LanePolicy {
            learn: Some(self.policy),
            ..LanePolicy::new(self.breaker.clone())
        }
    }

    /// Asks for one request of each process.
    fn one_by_one(&self) -> Vec<(usize, Permit)> {
        let asked = (0..self.processes.len()).filter_map(|number| self.ask_at_once(number));
        asked.collect()
    }

    /// Asks for one request of each process, all at the same time.
    fn all_at_once(&self) -> Vec<(usize, Permit)> {
        let start = Barrier::new(self.processes.len());
        std::thread::scope(|scope| {
            let ask = |number: usize| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    self.ask_at_once(number)
                })
            };
            let asked: Vec<_> = (0..self.processes.len()).map(ask).collect();
            let permit = |asked: ScopedJoinHandle<'_, _>| asked.join().expect("no panic");
            asked.into_iter().filter_map(permit).collect()
        })
    }

    fn ask_at_once(&self, number: usize) -> Option<(usize, Permit)> {
        let process = &self.processes[number];
        let ask = AdmissionRequest {
            jitter_sample: 0.5,
            ..AdmissionRequest::at_once(&process.costs, self.lane())
        };
        match arrive(process.site.enter(&ask)).entry {
            AdmissionDecision::Go(permit) => Some((number, permit)),
            AdmissionDecision::Refused(_) => None,
            other => panic!("{other:?}"),
        }
    }

    fn settle_all(&mut self, permits: Vec<(usize, Permit)>) {
        for (number, permit) in permits {
            let is_served = self.origin.serves(permit.stamp);
            let process = &self.processes[number];
            let ask = AdmissionRequest {
                jitter_sample: 0.5,
                ..AdmissionRequest::at_once(&process.costs, self.lane())
            };
            let report = report(&permit, is_served);
            arrive(process.site.settle(&ask, &permit, &report));
        }
    }
}

fn report(permit: &Permit, is_served: bool) -> AttemptResult {
    AttemptResult {
        outcome: if is_served {
            AttemptMeaning::Success
        } else {
            AttemptMeaning::Throttled
        },
        retry_after: None,
        sent: permit.at,
        wants_retry: false,
        maybe_refused: false,
    }
}
