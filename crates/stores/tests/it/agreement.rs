//! What processes make of the log of a site is what the pure functions make of its operations: the
//! same answers and the same state, after every step.

use std::sync::atomic::{AtomicU64, Ordering};

use docstokg_stores::redis::RedisStore;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, TestRunner};

use self::event::{
    Event, Rules, any_event, any_learning_event, any_outage_event, any_rules, learning_rules,
    outage_rules,
};
use self::world::World;
use crate::clock::ManualClock;
use crate::server::Server;

// Random events, and the rules of a random run.
mod event;
// One site as two processes make it, and as the pure functions do.
mod world;

const START: u64 = 1_700_000_000_000_000;

#[test]
fn two_processes_agree_with_the_pure_functions() {
    agree("two", any_rules(), any_event(), 160);
}

#[test]
fn processes_in_outages_agree_with_the_pure_functions() {
    let (early_failures, _) = agree("outage", outage_rules(), any_outage_event(), 60);
    assert!(
        early_failures > 40,
        "{early_failures} early probes have failed"
    );
}

/// So is what they know of the limits of the host.
#[test]
fn learned_and_stated_limits_agree_as_well() {
    let (_, [learned, stated]) = agree("limits", learning_rules(), any_learning_event(), 200);
    assert!(
        learned > 2_000 && stated > 700,
        "learned in {learned} steps, stated in {stated}"
    );
}

/// Runs random events under random rules, and returns how many early probes have failed, and in how
/// many steps anything was known of the host's limits.
fn agree(
    name: &str,
    rules: impl Strategy<Value = Rules>,
    event: impl Strategy<Value = Event>,
    cases: u32,
) -> (u64, [u64; 2]) {
    let server = Server::start();
    let clock = ManualClock::at(1);
    let stores = [(), ()].map(|()| RedisStore::open(&server.dsn(), clock.shared()));
    let stores = stores.map(|store| store.expect("a store"));
    let (runs, early_failures) = (AtomicU64::new(0), AtomicU64::new(0));
    let known = [(); 2].map(|()| AtomicU64::new(0));
    let mut runner = TestRunner::new(Config {
        cases,
        max_shrink_iters: 400,
        failure_persistence: None,
        ..Config::default()
    });
    let outcome = runner.run(
        &(rules, proptest::collection::vec(event, 1..120)),
        |(rules, events)| {
            let run = runs.fetch_add(1, Ordering::SeqCst);
            clock.set(START);
            let mut world = World::new(stores.each_ref(), &clock, &format!("{name}-{run}"), &rules);
            for event in &events {
                world.step(event)?;
            }
            early_failures.fetch_add(world.early_failures, Ordering::SeqCst);
            for (sum, of_run) in known.iter().zip(world.known) {
                sum.fetch_add(of_run, Ordering::SeqCst);
            }
            Ok(())
        },
    );
    if let Err(error) = outcome {
        panic!("{error}");
    }
    (
        early_failures.into_inner(),
        known.map(AtomicU64::into_inner),
    )
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
        early_probes: true,
        paced: false,
        fail_max: 5,
        learn: None,
        stated: false,
    }
}

/// More requests wait than are fitted one by one.
#[test]
fn processes_with_many_waiters_agree_with_the_pure_functions() {
    let server = Server::start();
    let clock = ManualClock::at(START);
    let store = RedisStore::open(&server.dsn(), clock.shared()).expect("a store");
    for (run, rates) in [
        ["2/SECOND", "3/2SECOND+90/MINUTE"],
        ["200/SECOND", "5000/SECOND"],
    ]
    .into_iter()
    .enumerate()
    {
        let mut world = World::new([&store; 2], &clock, &format!("crowd-{run}"), &plain(rates));
        let both = world.costs.clone();
        for step in 0..260usize {
            world.costs = if step % 5 == 3 {
                both[1..].to_vec()
            } else {
                both.clone()
            };
            let weight = 1 + u32::from(step % 9 == 4);
            let event = match step {
                0..90 => Event::Enter {
                    role: 0,
                    weight,
                    patient: true,
                    latest_ms: None,
                    ahead: None,
                    halves: 0,
                    backlog: 0,
                },
                _ if step % 4 == 0 => Event::Enter {
                    role: 0,
                    weight,
                    patient: true,
                    latest_ms: None,
                    ahead: (step % 8 == 0).then_some(3),
                    halves: 0,
                    backlog: 0,
                },
                _ => Event::Confirm {
                    which: step * 7 % world.reserved.len().max(1),
                },
            };
            let outcome = world
                .step(&event)
                .and_then(|()| world.step(&Event::Advance { micros: 20_000 }));
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
    let clock = ManualClock::at(START);
    let store = RedisStore::open(&server.dsn(), clock.shared()).expect("a store");
    // Rings that fill and go round, buckets that fill and leave, logs that a snapshot replaces, a day
    // that ends; under two kinds of questions that share one budget.
    for (run, rates) in [
        ["100/SECOND+5000/HOUR", "300/SECOND"],
        ["20/SECOND", "5000/SECOND"],
        ["4/2SECOND+4100/5SECOND", "4096/HOUR"],
    ]
    .into_iter()
    .enumerate()
    {
        let mut world = World::new([&store; 2], &clock, &format!("plain-{run}"), &plain(rates));
        let both = world.costs.clone();
        for step in 0..1_500u64 {
            world.costs = if step % 7 == 3 {
                both[1..].to_vec()
            } else {
                both.clone()
            };
            let enter = Event::Enter {
                role: 0,
                weight: 1,
                patient: false,
                latest_ms: Some(0),
                ahead: None,
                halves: 0,
                backlog: 0,
            };
            let micros = if step % 400 == 399 {
                1_200_000
            } else {
                3_000 + step % 11 * 1_000
            };
            let outcome = world
                .step(&enter)
                .and_then(|()| world.step(&Event::Advance { micros }));
            outcome.unwrap_or_else(|error| panic!("run {run}, step {step}: {error}"));
            world.permits.clear();
            if step == 900 {
                clock.advance(86_400_000_000);
            }
        }
    }
}
