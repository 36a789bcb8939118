//! Several processes on one store, some of which are killed.

use std::time::{Duration, Instant};

use docstokg_policy::breaker::{OpenReason, State};
use docstokg_policy::site::{Entry, Permit, RefusalReason};
use docstokg_stores::StateStore;
use docstokg_stores::conformance::arrive;

use crate::server::Server;
use crate::worker::{Client, LEASE, Worker, open};

/// Runs a test on every store that processes share.
fn on_every_store(test: impl Fn(&str, &dyn StateStore)) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start();
    for place in [
        path(&directory, "limits.shm"),
        path(&directory, "state.sqlite"),
        server.dsn(),
    ] {
        let store = open(&place);
        test(&place, &*store);
    }
}

fn path(directory: &tempfile::TempDir, name: &str) -> String {
    directory.path().join(name).display().to_string()
}

/// Waits for something that another process's end brings about.
#[expect(clippy::disallowed_methods, reason = "leases run out in real time")]
fn within(limit: Duration, what: &str, mut happens: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happens() {
        assert!(
            start.elapsed() < limit,
            "{what} takes longer than {limit:?}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn four_processes_are_granted_exactly_the_limit() {
    on_every_store(|place, store| {
        let workers: Vec<Worker> = (0..4)
            .map(|_| Worker::start("fill", place, "fill"))
            .collect();
        let granted: usize = workers.into_iter().map(Worker::granted).sum();
        assert_eq!(granted, 2_000, "{place}");
        let view = arrive(store.site(&"fill".into()).view());
        let client = Client::new(store, "fill", "2000/HOUR", None);
        let window = client.costs[0].windows.list()[0];
        assert_eq!(
            view.site.budgets()[0].used(&client.costs[0].windows, &window, view.now),
            2_000,
            "{place}: the store agrees"
        );
    });
}

#[test]
fn failures_seen_by_four_processes_add_up() {
    on_every_store(|place, store| {
        for _ in 0..4 {
            Worker::start("fail", place, "failures").granted();
        }
        let client = Client::new(store, "failures", "1000/SECOND", None);
        let Entry::Go(permit) = client.enter() else {
            panic!("{place}: open before the fifth failure")
        };
        client.settle(&permit, docstokg_policy::classify::Outcome::Failure);
        let Entry::Refused(refusal) = client.enter() else {
            panic!("{place}: five failures and not open")
        };
        assert!(matches!(
            refusal.reason,
            RefusalReason::Open {
                reason: OpenReason::Consecutive,
                ..
            }
        ));
        let view = arrive(client.site.view());
        assert!(
            view.site
                .breaker()
                .opened_by()
                .is_some_and(|who| who.contains(&format!("pid {}", std::process::id()))),
            "{place}"
        );
    });
}

#[test]
fn a_killed_process_leaves_a_reservation_that_runs_out() {
    on_every_store(|place, store| {
        let mut worker = Worker::start("hold a reservation", place, "reservation");
        worker.hear("holding");
        worker.kill();
        let client = Client::new(store, "reservation", "1/SECOND", None);
        assert_eq!(
            arrive(client.site.view()).site.budgets()[0]
                .waiting_until()
                .count(),
            1,
            "{place}"
        );
        within(Duration::from_secs(8), "a dead reservation", || {
            matches!(client.enter(), Entry::Go(_))
        });
    });
}

#[test]
fn a_killed_process_leaves_a_shared_slot_that_runs_out() {
    on_every_store(|place, store| {
        let mut worker = Worker::start("hold a slot", place, "slot");
        worker.hear("holding");
        let client = Client::new(store, "slot", "1000/SECOND", Some(1));
        let Entry::WaitForSlot { id, .. } = client.enter() else {
            panic!("{place}: the slot is taken")
        };
        worker.kill();
        within(LEASE * 2, "a dead slot", || {
            matches!(client.confirm(id), Entry::Go(_))
        });
    });
}

#[test]
fn a_killed_process_leaves_the_only_probe_to_others() {
    on_every_store(|place, store| {
        let mut worker = Worker::start("hold the probe", place, "probe");
        worker.hear("holding");
        let client = Client::new(store, "probe", "1000/SECOND", None);
        assert!(
            matches!(client.enter(), Entry::Refused(_)),
            "{place}: the probe is out"
        );
        worker.kill();
        within(LEASE * 2, "a dead probe", || {
            matches!(client.enter(), Entry::Go(Permit { probe: true, .. }))
        });
        assert_eq!(arrive(client.site.view()).state(), State::HalfOpen);
    });
}

#[test]
fn processes_killed_in_the_middle_of_anything_break_nothing() {
    on_every_store(|place, store| crate::kills::kill(place, store, 24));
}

#[test]
fn a_child_after_a_fork_has_handles_of_its_own() {
    on_every_store(|place, store| {
        let granted = Worker::start("fork", place, "fork").granted();
        assert_eq!(granted, 200, "{place}");
        let client = Client::new(store, "fork", "2000/HOUR", None);
        let view = arrive(client.site.view());
        let window = client.costs[0].windows.list()[0];
        assert_eq!(
            view.site.budgets()[0].used(&client.costs[0].windows, &window, view.now),
            201,
            "{place}"
        );
    });
}
