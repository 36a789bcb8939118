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

use run::{HOST, Served, SharingPlan};

// Starting processes and reading the origin's ledger; the measurement `cargo xtask sharing` uses it
// too.
#[allow(dead_code, reason = "the measurement uses more of it")]
mod run;
// A Redis server of our own.
#[allow(dead_code, reason = "the tests of stores use more of it")]
#[path = "../../../stores/tests/it/server.rs"]
mod server;

/// How many seconds a test waits for anything before it fails: only what hangs takes so long.
const PATIENCE: u64 = 300;

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

fn plans(directory: &tempfile::TempDir, server: &server::Server, block: bool) -> Vec<SharingPlan> {
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
    .map(|store| SharingPlan {
        store,
        limit: 50,
        processes: 4,
        callers: 4,
        seconds: PATIENCE,
        each: Some(10),
        block,
        far: None,
        late: 50,
    })
    .collect()
}

/// Checks a run in which every caller makes its requests to the end. How much of the rate is used,
/// how fair, and whether the windows hold to the millisecond, is measured by `cargo xtask sharing`.
fn check_all_served(plan: &SharingPlan) {
    let outcome = run::run(plan, &WORKER);
    let each = plan.callers * plan.each.unwrap_or(0);
    assert_eq!(
        outcome.by_worker,
        vec![each; plan.processes],
        "{plan:?}: every request of every process is served once"
    );
    assert_eq!(
        outcome.arrived, outcome.sent,
        "{plan:?}: the ledger and the workers agree"
    );
    outcome
        .exceeded
        .as_ref()
        .unwrap_or_else(|why| panic!("{plan:?}: {why}"));
}

fn check(block: bool) {
    let (directory, server) = (
        tempfile::tempdir().expect("a directory"),
        server::Server::start(),
    );
    for plan in plans(&directory, &server, block) {
        check_all_served(&plan);
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
fn crowded_plans(directory: &tempfile::TempDir, server: &server::Server) -> Vec<SharingPlan> {
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
        plans.extend(stores.map(|store| SharingPlan {
            store,
            limit,
            processes,
            callers: 2,
            seconds: PATIENCE,
            each: Some(if processes == 8 { 1 } else { 2 }),
            block: true,
            far: None,
            late: limit,
        }));
    }
    plans
}

/// More processes than a window allows, with a few requests each, on every store.
#[test]
fn more_processes_than_a_window_allows_are_all_served() {
    let (directory, server) = (
        tempfile::tempdir().expect("a directory"),
        server::Server::start(),
    );
    let plans = crowded_plans(&directory, &server);
    // They wait far more than they work: all of them run side by side.
    let runs: Vec<_> = plans
        .into_iter()
        .map(|plan| std::thread::spawn(move || check_all_served(&plan)))
        .collect();
    for run in runs {
        run.join().expect("no panic");
    }
}

/// While the store does not answer, each process takes its part of the limit: together they never
/// exceed it.
#[test]
fn shares_add_up_to_the_limit_while_the_store_is_lost() {
    const LIMIT: usize = 8;
    let mut redis = server::Server::start();
    let served = Served::start();
    let store = ("redis", redis.dsn());
    let plan = SharingPlan {
        store,
        limit: LIMIT,
        processes: 2,
        callers: 12,
        seconds: PATIENCE,
        each: None,
        block: true,
        far: None,
        late: 0,
    };
    let workers: Vec<_> = (0..2)
        .map(|name| run::start(&plan, &WORKER, name, &served.address(), SystemClock.boot()))
        .collect();
    let go_on = |count| wait_until_each_sends(&served, workers.len(), count);
    go_on(4);
    redis.kill();
    go_on(8);
    redis.restart();
    go_on(8);
    for mut worker in workers {
        worker.kill().expect("a living worker");
        worker.wait().expect("its end");
    }
    // Five windows, and what the machine has held up from those before. With the whole limit for
    // each it would be twice as many.
    served
        .web
        .ledger()
        .no_window_exceeded(HOST, LIMIT * 7, Duration::from_secs(5))
        .expect("shares add up to at most the limit");
}

/// Waits until the origin has got so many more requests from each worker.
#[expect(clippy::disallowed_methods, reason = "workers run in real time")]
fn wait_until_each_sends(served: &Served, workers: usize, count: usize) {
    let before = run::by_worker(&served.web, workers);
    let until = SystemClock.boot() + Duration::from_secs(PATIENCE);
    loop {
        let now = run::by_worker(&served.web, workers);
        if now
            .iter()
            .zip(&before)
            .all(|(now, before)| *now >= before + count)
        {
            return;
        }
        assert!(SystemClock.boot() < until, "{now:?} after {before:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Two hundred callers in a process that is killed leave one reservation behind, not a backlog.
#[test]
fn two_hundred_waiting_callers_leave_one_reservation() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state.sqlite");
    let served = Served::start();
    let plan = SharingPlan {
        store: ("sqlite", path.display().to_string()),
        limit: 1,
        processes: 1,
        callers: 200,
        seconds: PATIENCE,
        each: None,
        block: true,
        far: None,
        late: 0,
    };
    let mut worker = run::start(&plan, &WORKER, 0, &served.address(), SystemClock.boot());
    wait_until_each_sends(&served, 1, 2);
    worker.kill().expect("a living worker");
    worker.wait().expect("its end");
    let store = SqliteStore::open(&path, std::sync::Arc::new(SystemClock)).expect("a store");
    let view = arrive(store.site(&HOST.into()).view());
    let waiting: usize = view
        .site
        .budgets()
        .iter()
        .map(|budget| budget.count_waiting(view.now))
        .sum();
    assert!(
        waiting <= 1,
        "{waiting} reservations of two hundred callers"
    );
}
