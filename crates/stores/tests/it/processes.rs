//! Several processes on one store, some of which are killed.

use std::time::{Duration, Instant};

use docstokg_policy::breaker::{BreakerState, OpenReason};
use docstokg_policy::site::{AdmissionDecision, Permit, RefusalReason};
use docstokg_stores::StateStore;
use docstokg_stores::conformance::arrive;

use crate::server::Server;
use crate::worker::{PATIENCE, StoreWorker, WorkerClient, open};

/// Runs a test on every store that processes share.
fn on_every_store(test: impl Fn(&str, &dyn StateStore)) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start();
    for location in [
        path(&directory, "limits.shm"),
        path(&directory, "state.sqlite"),
        server.dsn(),
    ] {
        let store = open(&location);
        test(&location, &*store);
    }
}

fn path(directory: &tempfile::TempDir, name: &str) -> String {
    directory.path().join(name).display().to_string()
}

/// Waits for an effect of the end of another process.
#[expect(clippy::disallowed_methods, reason = "leases expire in real time")]
fn wait_until(what: &str, mut happens: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happens() {
        assert!(start.elapsed() < PATIENCE, "{what} does not expire");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn four_processes_get_exactly_the_limit() {
    on_every_store(|location, store| {
        let workers: Vec<StoreWorker> = (0..4)
            .map(|_| StoreWorker::start("fill", location, "fill"))
            .collect();
        let permitted: usize = workers.into_iter().map(StoreWorker::permitted).sum();
        assert_eq!(permitted, 2_000, "{location}");
        let view = arrive(store.site(&"fill".into()).view());
        let client = WorkerClient::new(store, "fill", "2000/HOUR", None);
        let window = client.costs[0].windows.list()[0];
        assert_eq!(
            view.site.budgets()[0].used(&client.costs[0].windows, &window, view.now),
            2_000,
            "{location}: the store agrees"
        );
    });
}

#[test]
fn failures_seen_by_four_processes_add_up() {
    on_every_store(|location, store| {
        for _ in 0..4 {
            StoreWorker::start("fail", location, "failures").permitted();
        }
        let client = WorkerClient::new(store, "failures", "1000/SECOND", None);
        let AdmissionDecision::Go(permit) = client.enter() else {
            panic!("{location}: open before the fifth failure")
        };
        client.settle(&permit, docstokg_policy::classify::AttemptMeaning::Failure);
        let AdmissionDecision::Refused(refusal) = client.enter() else {
            panic!("{location}: five failures and not open")
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
            "{location}"
        );
    });
}

#[test]
fn a_killed_process_leaves_a_reservation_that_expires() {
    on_every_store(|location, store| {
        let mut worker = StoreWorker::start("hold a reservation", location, "reservation");
        worker.hear("holding");
        worker.kill();
        let client = WorkerClient::new(store, "reservation", "1/SECOND", None);
        let view = arrive(client.site.view());
        assert_eq!(
            view.site.budgets()[0].count_waiting(view.now),
            1,
            "{location}"
        );
        wait_until("a dead reservation", || {
            matches!(client.enter(), AdmissionDecision::Go(_))
        });
    });
}

#[test]
fn a_killed_process_leaves_a_shared_slot_that_expires() {
    on_every_store(|location, store| {
        let mut worker = StoreWorker::start("hold a slot", location, "slot");
        worker.hear("holding");
        let client = WorkerClient::new(store, "slot", "1000/SECOND", Some(1));
        let AdmissionDecision::WaitForSlot { id, .. } = client.enter() else {
            panic!("{location}: the slot is taken")
        };
        worker.kill();
        wait_until("a dead slot", || {
            matches!(client.confirm(id), AdmissionDecision::Go(_))
        });
    });
}

#[test]
fn a_killed_process_leaves_the_only_probe_to_others() {
    on_every_store(|location, store| {
        let mut worker = StoreWorker::start("hold the probe", location, "probe");
        worker.hear("holding");
        let client = WorkerClient::new(store, "probe", "1000/SECOND", None);
        assert!(
            matches!(client.enter(), AdmissionDecision::Refused(_)),
            "{location}: the probe is in flight"
        );
        worker.kill();
        wait_until("a dead probe", || {
            matches!(
                client.enter(),
                AdmissionDecision::Go(Permit { probe: true, .. })
            )
        });
        assert_eq!(arrive(client.site.view()).state(), BreakerState::HalfOpen);
    });
}

#[test]
fn processes_killed_in_the_middle_of_an_operation_break_nothing() {
    on_every_store(|location, store| crate::killed_processes::kill(location, store, 24));
}

#[test]
fn processes_killed_while_they_learn_break_nothing() {
    on_every_store(|location, store| {
        let client = WorkerClient::learning(store, "learning", "300/SECOND+2000/HOUR");
        let start = || StoreWorker::start("learn without pause", location, "learning");
        let mut workers: Vec<StoreWorker> = (0..2).map(|_| start()).collect();
        let mut known = 0;
        for round in 0..12u64 {
            workers[0].hear("holding");
            #[expect(
                clippy::disallowed_methods,
                reason = "processes are killed in real time"
            )]
            std::thread::sleep(Duration::from_micros(20_000 + 3_777 * round));
            workers[0].kill();
            workers.remove(0);
            let _ = client.enter();
            known += usize::from(arrive(client.site.view()).site.quotas().is_some());
            workers.push(start());
        }
        drop(workers);
        assert!(known > 0, "{location}: nothing was ever known");
        arrive(client.site.forget_learned());
        assert!(arrive(client.site.view()).site.quotas().is_none());
    });
}

#[test]
fn a_child_after_a_fork_has_handles_of_its_own() {
    on_every_store(|location, store| {
        let permitted = StoreWorker::start("fork", location, "fork").permitted();
        assert_eq!(permitted, 200, "{location}");
        let client = WorkerClient::new(store, "fork", "2000/HOUR", None);
        let view = arrive(client.site.view());
        let window = client.costs[0].windows.list()[0];
        assert_eq!(
            view.site.budgets()[0].used(&client.costs[0].windows, &window, view.now),
            201,
            "{location}"
        );
    });
}

#[test]
fn a_process_gets_through_beside_many_that_never_pause() {
    on_every_store(|location, store| {
        let mut workers: Vec<StoreWorker> = (0..8)
            .map(|_| StoreWorker::start("hammer", location, "crowd"))
            .collect();
        for worker in &mut workers {
            worker.hear("holding");
        }
        let client = WorkerClient::new(store, "crowd", "300/SECOND+2000/HOUR", Some(3));
        for _ in 0..20 {
            let _ = client.enter();
        }
        workers.iter_mut().for_each(StoreWorker::kill);
    });
}
