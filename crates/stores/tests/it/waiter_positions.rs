//! A model of processes that share a limit: each has more to send than the limit allows, wakes
//! late, pauses, gives up or dies. It checks the order among waiting requests on every store: no
//! window is exceeded, and every process gets a turn.

use std::time::Duration;

use docstokg_stores::memory::MemoryStore;
use docstokg_stores::multiprocess::MultiprocessStore;
use docstokg_stores::redis::RedisStore;
use docstokg_stores::sqlite::SqliteStore;
use docstokg_stores::{SiteHandle, StateStore};

use self::model::PositionsModel;
use self::outcome::Outcome;
use self::plan::{Plan, long_plans};
use crate::clock::ManualClock;
use crate::server::Server;

// Processes that call a store, wake late, pause, give up and die.
mod model;
// The result of a run.
mod outcome;
// What a run of the model is like.
mod plan;

const START: u64 = 1_700_000_000_000_000;

/// Runs a plan on a site, and returns the result.
fn run(plan: &Plan, site: &dyn SiteHandle, clock: &ManualClock) -> Outcome {
    PositionsModel::new(plan, site, clock)
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

fn on_memory(plan: &Plan) -> Outcome {
    let clock = ManualClock::at(START);
    let store = MemoryStore::new(clock.shared());
    run(plan, &*store.site(&"a.example".into()), &clock)
}

#[test]
fn processes_that_wait_take_turns_and_use_the_whole_rate() {
    for plan in long_plans() {
        check(&plan, &on_memory(&plan));
    }
}

#[test]
fn no_random_plan_exceeds_a_window_or_starves_a_process() {
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
fn a_log_on_a_server_keeps_the_order_as_well() {
    let server = Server::start();
    let clock = ManualClock::at(START);
    let store = RedisStore::open(&server.dsn(), clock.shared()).expect("a store");
    let long = long_plans()
        .into_iter()
        .filter(|plan| plan.processes <= 8 && plan.late != 1_000);
    for (number, plan) in (0..24).map(Plan::any).chain(long).enumerate() {
        let site = store.site_on_own_time(&format!("order-{number}").as_str().into());
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
        let clock = ManualClock::at(START);
        let mapped = MultiprocessStore::open(
            &directory.path().join(format!("{number}.shm")),
            clock.shared(),
        )
        .expect("a store");
        check(
            &plan,
            &run(&plan, &*mapped.site(&"a.example".into()), &clock),
        );
        let database = SqliteStore::open(
            &directory.path().join(format!("{number}.sqlite")),
            clock.shared(),
        )
        .expect("a store");
        check(
            &plan,
            &run(&plan, &*database.site(&"a.example".into()), &clock),
        );
    }
}
