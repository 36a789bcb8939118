//! Two runs started side by side behave like one polite client: real processes, real stores, an
//! origin's ledger.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed expectation is a failed test"
)]

use std::time::Duration;

use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_hub::stores::StateStore;
use docstokg_hub::stores::conformance::arrive;
use docstokg_hub::stores::sqlite::SqliteStore;

use run::{HOST, Plan, Served};

// Starting processes and reading the origin's ledger; the measurement `cargo xtask sharing` uses it
// too.
mod run;
// A Redis server of our own.
#[allow(dead_code, reason = "the tests of stores use more of it")]
#[path = "../../../stores/tests/it/server.rs"]
mod server;

const WORKER: [&str; 5] = [
    "as_a_worker",
    "--exact",
    "--ignored",
    "--nocapture",
    "--quiet",
];

#[test]
#[ignore = "the other tests run it in a process of its own"]
fn as_a_worker() {
    run::work();
}

fn plans(directory: &tempfile::TempDir, server: &server::Server, block: bool) -> Vec<Plan> {
    let place = |name: &str| {
        directory
            .path()
            .join(format!("{block}-{name}"))
            .display()
            .to_string()
    };
    [
        ("multiprocess", place("limits.shm")),
        ("sqlite", place("state.sqlite")),
        ("redis", server.dsn()),
    ]
    .into_iter()
    .map(|store| Plan {
        store,
        limit: 50,
        processes: 4,
        callers: 4,
        seconds: 3,
        each: None,
        block,
        slack: Duration::from_millis(200),
    })
    .collect()
}

fn check(block: bool) {
    let (directory, server) = (
        tempfile::tempdir().expect("a directory"),
        server::Server::start(),
    );
    for plan in plans(&directory, &server, block) {
        let outcome = run::run(&plan, &WORKER);
        outcome
            .exceeded
            .as_ref()
            .unwrap_or_else(|why| panic!("{plan:?}: {why}"));
        assert_eq!(
            outcome.arrived, outcome.sent,
            "{plan:?}: the ledger and the workers agree"
        );
        // Short, and on a machine that does other things: the measurement proper, of fairness too,
        // is `cargo xtask sharing`.
        assert!(
            outcome.arrived >= 100 && outcome.used > 0.8,
            "{plan:?}: {outcome:?}"
        );
        assert!(
            outcome.by_worker.iter().all(|got| *got > 0) && outcome.spread < 50.0,
            "{plan:?}: a process starved: {outcome:?}"
        );
    }
}

#[test]
fn four_processes_that_wait_share_one_window() {
    check(true);
}

#[test]
fn four_processes_that_do_not_wait_share_one_window() {
    check(false);
}

/// Plans with up to eight processes and one or two requests a second, on every store.
fn crowded_plans(directory: &tempfile::TempDir, server: &server::Server) -> Vec<Plan> {
    let mut plans = Vec::new();
    for (limit, processes) in [(1, 2), (1, 4), (1, 8), (2, 2), (2, 4), (2, 8)] {
        let place = |name: &str| {
            let name = format!("{limit}-{processes}-{name}");
            directory.path().join(name).display().to_string()
        };
        let database = (limit - 1) * 3 + processes / 3;
        let dsn = format!("redis://127.0.0.1:{}/{database}", server.port);
        let stores = [
            ("multiprocess", place("limits.shm")),
            ("sqlite", place("state.sqlite")),
            ("redis", dsn),
        ];
        plans.extend(stores.map(|store| Plan {
            store,
            limit,
            processes,
            callers: 2,
            seconds: 80,
            each: Some(if processes == 8 { 1 } else { 2 }),
            block: true,
            slack: Duration::from_millis(150),
        }));
    }
    plans
}

/// More processes than a window allows, with a few requests each, on every store: all are served,
/// in the ideal time.
#[test]
fn more_processes_than_a_window_allows_are_all_served_in_time() {
    let (directory, server) = (
        tempfile::tempdir().expect("a directory"),
        server::Server::start(),
    );
    let plans = crowded_plans(&directory, &server);
    // They wait far more than they work: all of them run side by side.
    let runs: Vec<_> = plans
        .into_iter()
        .map(|plan| std::thread::spawn(move || (run::run(&plan, &WORKER), plan)))
        .collect();
    for run in runs {
        let (outcome, plan) = run.join().expect("no panic");
        let total = plan.processes * plan.callers * plan.each.unwrap_or(0);
        assert_eq!(
            (outcome.arrived, outcome.sent),
            (total, total),
            "{plan:?}: every request is served"
        );
        outcome
            .exceeded
            .as_ref()
            .unwrap_or_else(|why| panic!("{plan:?}: {why}"));
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let ideal = ((total - 1) / plan.limit) as f64 * 1.01;
        assert!(
            outcome.took.as_secs_f64() <= ideal * 1.05 + 1.0,
            "{plan:?}: {:?}, at best {ideal} s",
            outcome.took
        );
    }
}

/// While the store does not answer, each process takes its part of the limit: together they never
/// exceed it.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a server is killed and paused in real time"
)]
fn shares_add_up_to_the_limit_while_the_store_is_lost() {
    let mut redis = server::Server::start();
    let served = Served::start();
    let store = ("redis", redis.dsn());
    let plan = Plan {
        store,
        limit: 8,
        processes: 2,
        callers: 12,
        seconds: 15,
        each: None,
        block: true,
        slack: Duration::ZERO,
    };
    let begin = SystemClock.boot() + Duration::from_millis(500);
    let workers: Vec<_> = (0..2)
        .map(|name| run::start(&plan, &WORKER, name, &served.address(), begin))
        .collect();
    std::thread::sleep(Duration::from_secs(4));
    redis.kill();
    std::thread::sleep(Duration::from_secs(7));
    redis.restart();
    for mut worker in workers {
        assert!(worker.wait().expect("its end").success());
    }
    let arrivals = served.web.ledger().arrivals();
    served
        .web
        .ledger()
        .no_window_exceeded(HOST, 8, Duration::from_millis(850))
        .expect("shares add up to at most the limit");
    // After two seconds and a window of caution, each with its share.
    let lost: Vec<_> = arrivals
        .iter()
        .filter(|arrival| (7_500..10_000).contains(&arrival.at.since(begin).as_millis()))
        .collect();
    assert!(
        lost.len() >= 4,
        "they go on meanwhile: {} in two and a half seconds",
        lost.len()
    );
}

/// Two hundred callers in a process that is killed leave one reservation behind, not a backlog.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a process is killed in real time"
)]
fn two_hundred_waiting_callers_leave_one_reservation() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state.sqlite");
    let served = Served::start();
    let plan = Plan {
        store: ("sqlite", path.display().to_string()),
        limit: 1,
        processes: 1,
        callers: 200,
        seconds: 60,
        each: None,
        block: true,
        slack: Duration::ZERO,
    };
    let mut worker = run::start(&plan, &WORKER, 0, &served.address(), SystemClock.boot());
    while served.web.ledger().len() < 2 {
        std::thread::sleep(Duration::from_millis(10));
    }
    worker.kill().expect("a living worker");
    worker.wait().expect("its end");
    let store = SqliteStore::open(&path, std::sync::Arc::new(SystemClock)).expect("a store");
    let view = arrive(store.site(&HOST.into()).view());
    let waiting: usize = view
        .site
        .budgets()
        .iter()
        .map(|budget| budget.waiting_until().count())
        .sum();
    assert!(
        waiting <= 1,
        "{waiting} reservations of two hundred callers"
    );
}
