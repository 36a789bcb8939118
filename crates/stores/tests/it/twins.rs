//! The script and the pure functions agree: the same steps at the same instants give the same
//! answers and the same state.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use docstokg_policy::adaptive::AdaptivePolicy;
use docstokg_policy::breaker::{BreakerPolicy, OpenReason, RollingWindow};
use docstokg_policy::classify::Outcome;
use docstokg_policy::host::Host;
use docstokg_policy::rate::parse_rates;
use docstokg_policy::role::Role;
use docstokg_policy::site::{
    Ask, Cost, Entered, Entry, Patience, Permit, QueuePosition, Report, Site,
};
use docstokg_policy::time::{BootInstant, Clock, Timestamp};
use docstokg_policy::windows::Windows;
use docstokg_stores::conformance::arrive;
use docstokg_stores::redis::RedisStore;
use docstokg_stores::{BudgetKey, SiteHandle, process};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::server::Server;

/// A clock that is set by hand.
struct Hands(AtomicU64);

impl Clock for Hands {
    fn boot(&self) -> BootInstant {
        BootInstant::from_micros(self.0.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(0)
    }
}

/// One thing that happens. Numbers choose among what is there.
#[derive(Clone, Debug)]
enum Happening {
    Permit {
        micros: u64,
    },
    Enter {
        role: usize,
        weight: u32,
        patient: bool,
        latest_ms: Option<u64>,
        ahead: Option<u32>,
        halves: u8,
    },
    Confirm {
        which: usize,
    },
    LeaveReserved {
        which: usize,
    },
    GiveBack {
        which: usize,
    },
    Hold {
        which: usize,
        longest_ms: u64,
    },
    Sent {
        which: usize,
        longest_ms: u64,
    },
    Stamp {
        which: usize,
    },
    Headers {
        which: usize,
        outcome: usize,
    },
    Settle {
        which: usize,
        outcome: usize,
        retry_after_ms: Option<u64>,
    },
    Renew,
    Block {
        millis: u64,
    },
    Unblock,
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening::{
        Block, Confirm, Enter, GiveBack, Headers, Hold, LeaveReserved, Permit, Renew, Sent, Settle,
        Stamp, Unblock,
    };
    let which = 0..8usize;
    prop_oneof![
        6 => prop_oneof![1..2_000u64, 100_000..700_000u64, 1_000_000..9_000_000u64, Just(1_010_000u64), Just(1_009_999u64), Just(5_010_000u64)].prop_map(|micros| Permit { micros }),
        10 => (0..3usize, prop_oneof![8 => 1..3u32, 1 => 1_300..1_500u32], any::<bool>(), proptest::option::weighted(0.7, 0..5_000u64), proptest::option::weighted(0.15, 0..5u32), 0..3u8)
            .prop_map(|(role, weight, patient, latest_ms, ahead, halves)| Enter { role, weight, patient, latest_ms, ahead, halves }),
        4 => which.clone().prop_map(|which| Confirm { which }),
        1 => which.clone().prop_map(|which| LeaveReserved { which }),
        1 => which.clone().prop_map(|which| GiveBack { which }),
        2 => (which.clone(), 1..9_000u64).prop_map(|(which, longest_ms)| Hold { which, longest_ms }),
        2 => (which.clone(), 0..1_500u64).prop_map(|(which, longest_ms)| Sent { which, longest_ms }),
        2 => which.clone().prop_map(|which| Stamp { which }),
        2 => (which.clone(), 0..4usize).prop_map(|(which, outcome)| Headers { which, outcome }),
        7 => (which, prop_oneof![2 => 0..4usize, 3 => Just(1usize), 2 => Just(3usize)], proptest::option::weighted(0.3, 0..9_000u64))
            .prop_map(|(which, outcome, retry_after_ms)| Settle { which, outcome, retry_after_ms }),
        1 => Just(Renew),
        1 => (1..6_000u64).prop_map(|millis| Block { millis }),
        1 => Just(Unblock),
    ]
}

/// What holds for one run.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
struct Rules {
    rates: [&'static str; 2],
    slots: [Option<u32>; 2],
    isolated: Option<usize>,
    adaptive: bool,
    rolling: bool,
    shadow: bool,
    throttle_block: bool,
    fail_max: u32,
}

fn rules() -> impl Strategy<Value = Rules> {
    let rates = || {
        prop_oneof![
            Just("2/SECOND"),
            Just("1/3SECOND"),
            Just("3/SECOND+5/10SECOND"),
            Just("5000/SECOND"),
            Just("4/2SECOND+4100/5SECOND")
        ]
    };
    let slots = || proptest::option::weighted(0.2, 1..3u32);
    (
        rates(),
        rates(),
        slots(),
        slots(),
        proptest::option::weighted(0.3, 0..3usize),
        any::<[bool; 3]>(),
        proptest::bool::weighted(0.1),
        2..6u32,
    )
        .prop_map(
            |(
                first,
                second,
                one,
                two,
                isolated,
                [adaptive, rolling, throttle_block],
                shadow,
                fail_max,
            )| Rules {
                rates: [first, second],
                slots: [one, two],
                isolated,
                adaptive,
                rolling,
                shadow,
                throttle_block,
                fail_max,
            },
        )
}

const OUTCOMES: [Outcome; 4] = [
    Outcome::Success,
    Outcome::Failure,
    Outcome::Neutral,
    Outcome::Throttled,
];

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

struct World {
    clock: Arc<Hands>,
    pure: Site,
    script: Arc<dyn SiteHandle>,
    next_id: Box<dyn Fn() -> u64>,
    costs: Vec<Cost>,
    breaker: BreakerPolicy,
    adaptive: Option<AdaptivePolicy>,
    isolated: Option<usize>,
    reserved: Vec<(u64, Role, u32)>,
    permits: Vec<(Permit, Role, u32)>,
}

impl World {
    fn new(store: &RedisStore, clock: &Arc<Hands>, key: &str, rules: &Rules) -> Self {
        let (script, next_id) = store.site_on_own_time(&key.into());
        let keys = [
            BudgetKey::Role(Host::parse("a.example").expect("a host"), Role::Metadata),
            BudgetKey::Common,
        ];
        let cost = |place: usize| Cost {
            budget: script.budget(&keys[place]),
            weight: 1,
            windows: Arc::new(Windows::new(
                parse_rates(rules.rates[place]).expect("rates"),
                Duration::from_millis(10),
            )),
            slots: rules.slots[place].and_then(NonZeroU32::new),
        };
        let costs = vec![cost(0), cost(1)];
        let mut pure = Site::default();
        pure.ensure_budgets(2);
        let rolling = RollingWindow {
            threshold_failures: NonZeroU32::new(3).expect("three"),
            within: seconds(8),
            cooldown: seconds(4),
        };
        let breaker = BreakerPolicy {
            fail_max: NonZeroU32::new(rules.fail_max).expect("some"),
            reset: seconds(2),
            reset_ceiling: seconds(9),
            retry_after_cap: seconds(5),
            window: rules.rolling.then_some(rolling),
            throttle_block: rules.throttle_block.then_some(seconds(1)),
            one_failure_per_epoch: rules.adaptive,
            shadow: rules.shadow,
            ..BreakerPolicy::default()
        };
        let adaptive = rules.adaptive.then(|| AdaptivePolicy {
            window: seconds(3),
            ..AdaptivePolicy::default()
        });
        let clock = Arc::clone(clock);
        let (reserved, permits) = (Vec::new(), Vec::new());
        Self {
            clock,
            pure,
            script,
            next_id: Box::new(next_id),
            costs,
            breaker,
            adaptive,
            isolated: rules.isolated,
            reserved,
            permits,
        }
    }

    fn costs(&self, weight: u32) -> Vec<Cost> {
        self.costs
            .iter()
            .map(|cost| Cost {
                weight,
                ..cost.clone()
            })
            .collect()
    }

    fn ask<'a>(&'a self, costs: &'a [Cost], role: Role) -> Ask<'a> {
        let now = self.clock.boot();
        Ask {
            role,
            isolated: self.isolated == Some(role.index()),
            adaptive: self.adaptive.as_ref(),
            deadline: now + seconds(60),
            asked: now,
            ..Ask::at_once(costs, &self.breaker)
        }
    }

    fn same_names(&mut self) {
        let next = (self.next_id)();
        self.pure.number_from(next - 1);
    }

    fn took(&mut self, entered: &Entered, role: Role, weight: u32) {
        match &entered.entry {
            Entry::Go(permit) => self.permits.push((permit.clone(), role, weight)),
            Entry::Wait(reserved) => self.reserved.push((reserved.id, role, weight)),
            Entry::WaitForSlot { id, .. } => self.reserved.push((*id, role, weight)),
            _ => {}
        }
    }

    /// Lets one thing happen in both worlds and compares what they say.
    fn step(&mut self, happening: &Happening) -> Result<(), TestCaseError> {
        let now = self.clock.boot();
        match *happening {
            Happening::Permit { micros } => {
                self.clock.0.fetch_add(micros, Ordering::SeqCst);
            }
            Happening::Enter {
                role,
                weight,
                patient,
                latest_ms,
                ahead,
                halves,
            } => {
                // No more than every window can ever grant.
                let most = self
                    .costs
                    .iter()
                    .map(|cost| cost.windows.largest_weight())
                    .min()
                    .unwrap_or(1);
                let weight = weight.min(most);
                let (role, costs) = (Role::ALL[role], self.costs(weight));
                self.same_names();
                let mut pure = self.pure.clone();
                let ask = Ask {
                    latest: latest_ms.map_or(BootInstant::FAR, |millis| {
                        now + Duration::from_millis(millis)
                    }),
                    patience: if patient {
                        Patience::Wait
                    } else {
                        Patience::Refuse
                    },
                    queue_position: match ahead {
                        None => QueuePosition::Head,
                        Some(0) => QueuePosition::Overlapping,
                        Some(ahead) => QueuePosition::Behind(ahead - 1),
                    },
                    jitter_sample: f64::from(halves) / 2.0,
                    ..self.ask(&costs, role)
                };
                let (theirs, ours) = (arrive(self.script.enter(&ask)), pure.enter(&ask, now));
                prop_assert_eq!(&theirs, &ours);
                self.pure = pure;
                self.took(&ours, role, weight);
            }
            Happening::Confirm { which } if which < self.reserved.len() => {
                let (id, role, weight) = self.reserved.remove(which);
                let costs = self.costs(weight);
                self.same_names();
                let mut pure = self.pure.clone();
                let ask = Ask {
                    latest: BootInstant::FAR,
                    ..self.ask(&costs, role)
                };
                let (theirs, ours) = (
                    arrive(self.script.confirm(&ask, id)),
                    pure.confirm(&ask, id, now),
                );
                prop_assert_eq!(&theirs, &ours);
                self.pure = pure;
                self.took(&ours, role, weight);
            }
            Happening::LeaveReserved { which } if which < self.reserved.len() => {
                let (id, role, weight) = self.reserved.remove(which);
                let costs = self.costs(weight);
                let mut pure = self.pure.clone();
                let ask = self.ask(&costs, role);
                prop_assert_eq!(
                    arrive(self.script.leave(&ask, id, None)),
                    pure.leave(&ask, id, None)
                );
                self.pure = pure;
            }
            Happening::GiveBack { which } if which < self.permits.len() => {
                let (permit, role, weight) = self.permits.remove(which);
                let costs = self.costs(weight);
                let mut pure = self.pure.clone();
                let ask = self.ask(&costs, role);
                prop_assert_eq!(
                    arrive(self.script.leave(&ask, permit.id, Some(permit.stamp))),
                    pure.leave(&ask, permit.id, Some(permit.stamp))
                );
                self.pure = pure;
            }
            Happening::Hold { which, longest_ms } if which < self.permits.len() => {
                let ((permit, role, weight), longest) = (
                    self.permits[which].clone(),
                    Duration::from_millis(longest_ms),
                );
                let costs = self.costs(weight);
                let mut pure = self.pure.clone();
                let ask = self.ask(&costs, role);
                arrive(self.script.hold(&ask, &permit, longest));
                pure.hold(&ask, &permit, now + longest);
                self.pure = pure;
            }
            Happening::Sent { which, longest_ms } if which < self.permits.len() => {
                let ((permit, role, weight), longest) = (
                    self.permits[which].clone(),
                    Duration::from_millis(longest_ms),
                );
                let costs = self.costs(weight);
                let mut pure = self.pure.clone();
                let ask = self.ask(&costs, role);
                prop_assert_eq!(
                    arrive(self.script.sent(&ask, &permit, longest)),
                    pure.sent(&ask, &permit, longest, now)
                );
                self.pure = pure;
            }
            Happening::Stamp { which } if which < self.permits.len() => {
                let (permit, role, weight) = self.permits[which].clone();
                let costs = self.costs(weight);
                let mut pure = self.pure.clone();
                let ask = self.ask(&costs, role);
                arrive(self.script.stamp(&ask, &permit));
                pure.stamp(&ask, &permit, now);
                self.pure = pure;
            }
            Happening::Headers { which, outcome } if which < self.permits.len() => {
                let (permit, role, weight) = self.permits[which].clone();
                let costs = self.costs(weight);
                let mut pure = self.pure.clone();
                let ask = self.ask(&costs, role);
                let ours = pure.settle_headers(&ask, &permit, OUTCOMES[outcome], now);
                prop_assert_eq!(
                    arrive(self.script.settle_headers(&ask, &permit, OUTCOMES[outcome])),
                    ours
                );
                self.pure = pure;
            }
            Happening::Settle {
                which,
                outcome,
                retry_after_ms,
            } if which < self.permits.len() => {
                let (permit, role, weight) = self.permits.remove(which);
                let costs = self.costs(weight);
                let mut pure = self.pure.clone();
                let ask = self.ask(&costs, role);
                // A good answer to a clean pass is not told to the server at all: that is another
                // test's business.
                let permit = Permit {
                    clean: false,
                    ..permit
                };
                let report = Report {
                    outcome: OUTCOMES[outcome],
                    retry_after: retry_after_ms.map(Duration::from_millis),
                    sent: permit.at,
                };
                prop_assert_eq!(
                    arrive(self.script.settle(&ask, &permit, &report)),
                    pure.settle(&ask, &permit, &report, now)
                );
                self.pure = pure;
            }
            Happening::Renew => {
                let ids: Vec<u64> = self.permits.iter().map(|(permit, ..)| permit.id).collect();
                prop_assert_eq!(
                    arrive(self.script.renew(&ids, seconds(20))),
                    self.pure.renew(&ids, seconds(20), now)
                );
            }
            Happening::Block { millis } => {
                let (length, reason) = (
                    Duration::from_millis(millis),
                    OpenReason::Operator("a word".into()),
                );
                prop_assert_eq!(
                    arrive(self.script.block(length, &reason)),
                    self.pure.block(now + length, &reason, now)
                );
            }
            Happening::Unblock => {
                prop_assert_eq!(arrive(self.script.unblock()), self.pure.unblock(now));
            }
            _ => {}
        }
        self.pure.sign(&process::signature());
        let theirs = arrive(self.script.view());
        prop_assert_eq!(
            state(&theirs.site),
            state(&self.pure),
            "after {:?}",
            happening
        );
        Ok(())
    }
}

/// Writes a state down, in a form that can be compared. Breakers that were never asked for do not
/// count.
fn state(site: &Site) -> Value {
    let (breaker, isolated) = site.breakers();
    let mut isolated: Vec<Value> = isolated
        .iter()
        .map(|(role, own)| json!([role.as_str(), own]))
        .collect();
    isolated.sort_by_key(|own| own[0].as_str().unwrap_or_default().to_owned());
    let budgets: Vec<Value> = site
        .budgets()
        .iter()
        .map(|budget| json!([budget, budget.history()]))
        .collect();
    json!({ "breaker": breaker, "isolated": isolated, "budgets": budgets })
}

#[test]
fn the_script_and_the_pure_functions_agree() {
    let server = Server::start();
    let clock = Arc::new(Hands(AtomicU64::new(1)));
    let store =
        RedisStore::open(&server.dsn(), Arc::clone(&clock) as Arc<dyn Clock>).expect("a store");
    let runs = AtomicU64::new(0);
    let mut runner = TestRunner::new(Config {
        cases: 160,
        max_shrink_iters: 400,
        failure_persistence: None,
        ..Config::default()
    });
    let outcome = runner.run(
        &(rules(), proptest::collection::vec(happening(), 1..120)),
        |(rules, happenings)| {
            let run = runs.fetch_add(1, Ordering::SeqCst);
            clock.0.store(1_700_000_000_000_000, Ordering::SeqCst);
            let mut world = World::new(&store, &clock, &format!("twins-{run}"), &rules);
            for happening in &happenings {
                world.step(happening)?;
            }
            Ok(())
        },
    );
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

fn plain(rates: [&'static str; 2]) -> Rules {
    Rules {
        rates,
        slots: [None, None],
        isolated: None,
        adaptive: false,
        rolling: false,
        shadow: false,
        throttle_block: false,
        fail_max: 5,
    }
}

/// More requests wait than are fitted one by one.
#[test]
fn crowds_agree_as_well() {
    let server = Server::start();
    let clock = Arc::new(Hands(AtomicU64::new(1_700_000_000_000_000)));
    let store =
        RedisStore::open(&server.dsn(), Arc::clone(&clock) as Arc<dyn Clock>).expect("a store");
    for (run, rates) in [
        ["2/SECOND", "3/2SECOND+90/MINUTE"],
        ["200/SECOND", "5000/SECOND"],
    ]
    .into_iter()
    .enumerate()
    {
        let mut world = World::new(&store, &clock, &format!("crowd-{run}"), &plain(rates));
        let both = world.costs.clone();
        for step in 0..260usize {
            world.costs = if step % 5 == 3 {
                both[1..].to_vec()
            } else {
                both.clone()
            };
            let weight = 1 + u32::from(step % 9 == 4);
            let happening = match step {
                0..90 => Happening::Enter {
                    role: 0,
                    weight,
                    patient: true,
                    latest_ms: None,
                    ahead: None,
                    halves: 0,
                },
                _ if step % 4 == 0 => Happening::Enter {
                    role: 0,
                    weight,
                    patient: true,
                    latest_ms: None,
                    ahead: (step % 8 == 0).then_some(3),
                    halves: 0,
                },
                _ => Happening::Confirm {
                    which: step * 7 % world.reserved.len().max(1),
                },
            };
            let outcome = world
                .step(&happening)
                .and_then(|()| world.step(&Happening::Permit { micros: 20_000 }));
            outcome.unwrap_or_else(|error| panic!("run {run}, step {step}: {error}"));
        }
        assert!(
            run == 1 || world.reserved.len() > 60,
            "a crowd: {}",
            world.reserved.len()
        );
    }
}

#[test]
fn long_plain_runs_agree_as_well() {
    let server = Server::start();
    let clock = Arc::new(Hands(AtomicU64::new(1_700_000_000_000_000)));
    let store =
        RedisStore::open(&server.dsn(), Arc::clone(&clock) as Arc<dyn Clock>).expect("a store");
    // Rings that fill and go round, buckets that fill and leave, logs that are folded, a day that
    // ends; under two kinds of questions that share one budget, and a clock that is set back once.
    for (run, rates) in [
        ["100/SECOND+5000/HOUR", "300/SECOND"],
        ["20/SECOND", "5000/SECOND"],
        ["4/2SECOND+4100/5SECOND", "4096/HOUR"],
    ]
    .into_iter()
    .enumerate()
    {
        let mut world = World::new(&store, &clock, &format!("plain-{run}"), &plain(rates));
        let both = world.costs.clone();
        for step in 0..1_500u64 {
            world.costs = if step % 7 == 3 {
                both[1..].to_vec()
            } else {
                both.clone()
            };
            let enter = Happening::Enter {
                role: 0,
                weight: 1,
                patient: false,
                latest_ms: Some(0),
                ahead: None,
                halves: 0,
            };
            let micros = if step % 400 == 399 {
                1_200_000
            } else {
                3_000 + step % 11 * 1_000
            };
            let outcome = world
                .step(&enter)
                .and_then(|()| world.step(&Happening::Permit { micros }));
            outcome.unwrap_or_else(|error| panic!("run {run}, step {step}: {error}"));
            world.permits.clear();
            if step == 700 {
                clock.0.fetch_sub(50_000, Ordering::SeqCst);
            }
            if step == 900 {
                clock.0.fetch_add(86_400_000_000, Ordering::SeqCst);
            }
        }
    }
}
