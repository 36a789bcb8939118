//! Real processes in real time under a limit that was learned, one of which is killed.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::host_model::learned::LearnMode;
use docstokg_policy::site::AdmissionDecision;
use docstokg_policy::time::Clock;
use docstokg_stores::clock::SystemClock;
use docstokg_stores::conformance::arrive;
use docstokg_stores::redis::RedisStore;
use parking_lot::Mutex;

use super::{Origin, Run, words};
use crate::clock::ManualClock;
use crate::server::Server;
use crate::slow_link::SlowLink;
use crate::worker::{LONG_LEASE, PATIENCE, StoreWorker, WorkerClient};

const PER_SECOND: usize = 10;

/// Serves an origin on a free port: one byte for each byte, whether it is admitted.
fn serve(origin: Origin) -> (u16, Arc<Mutex<Origin>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let ledger = Arc::new(Mutex::new(origin));
    let shared = Arc::clone(&ledger);
    std::thread::spawn(move || {
        // It ends with the test program.
        for connection in listener.incoming() {
            let (mut connection, ledger) = (connection.expect("a client"), Arc::clone(&shared));
            std::thread::spawn(move || {
                connection.set_nodelay(true).expect("a socket");
                while connection.read_exact(&mut [0]).is_ok() {
                    let is_served = ledger.lock().serves(SystemClock.boot());
                    let answer = if is_served { b"1" } else { b"0" };
                    if connection.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (port, ledger)
}

/// Returns the largest number of permits within a second, given their instants in microseconds.
fn most_in_a_second(mut permits: Vec<u64>) -> usize {
    permits.sort_unstable();
    let in_the_second_from = |from: usize| {
        let end = permits[from] + 1_000_000;
        permits[from..].partition_point(|at| *at < end)
    };
    (0..permits.len())
        .map(in_the_second_from)
        .max()
        .unwrap_or(0)
}

/// Judged by the instants of the permits on the server's clock, and by their number: how soon a
/// process gets to run changes neither.
#[test]
fn two_processes_share_a_learned_limit_and_one_goes_on_alone() {
    let server = Server::start();
    let now = || u64::try_from(SystemClock.wall().as_micros()).expect("after 1970");
    // The limit is found before the processes start, in the last minutes on the server's clock.
    let clock = ManualClock::at(now() - 600_000_000);
    let store = RedisStore::open(&server.dsn(), clock.shared()).expect("a store");
    let site = store.site_on_own_time(&"a.example".into());
    let hidden = Origin::admits(PER_SECOND, Duration::from_secs(1));
    let rule = (LearnMode::Tighten, "50/SECOND");
    let mut run = Run::new(&clock, vec![site.clone()], rule, hidden);
    run.until_served(1_500);
    assert!(clock.micros() < now(), "the search lies in the past");
    let view = arrive(site.view());
    let limits = words(view.site.learned().expect("something is learned"));
    assert!(!limits.is_empty(), "a limit is confirmed");

    let (port, ledger) = serve(Origin::admits(PER_SECOND, Duration::from_secs(1)));
    let does = format!("pace at port {port}");
    let start = || StoreWorker::start(&does, &server.dsn(), "a.example");
    let (mut victim, mut other) = (start(), start());
    // Each gets its share while both run.
    let mut permits = victim.hear_permits(10);
    permits.extend(other.hear_permits(10));
    permits.extend(victim.end());
    // What the victim held expires, and the other one goes on.
    permits.extend(other.hear_permits(30));
    permits.extend(other.end());

    let most = most_in_a_second(permits);
    // One request more now and then tests whether the limit is higher. Without a common limit there
    // are twice as many.
    assert!(
        most <= PER_SECOND * 3 / 2,
        "{most} permits in a second under {limits:?}"
    );
    let refused = ledger.lock().refused.len();
    assert!(refused <= 30, "{refused} refused under {limits:?}");
}

/// After a refusal one request at a time tests the host. However far away the server is, no other
/// one goes before that is answered.
#[test]
fn a_distant_server_keeps_one_test_at_a_time() {
    let server = Server::start();
    let dsn = SlowLink::start(server.port, Duration::from_millis(40)).dsn(0);
    let store = || RedisStore::open(&dsn, Arc::new(SystemClock)).expect("a store");
    let (one, two) = (store(), store());
    let [one, two] = [&one, &two].map(|store| {
        WorkerClient::learning(store, "a.example", "50/SECOND").with_lease(LONG_LEASE)
    });
    let go = |client: &WorkerClient| match client.enter() {
        AdmissionDecision::Go(permit) => permit,
        other => panic!("expected a go, got {other:?}"),
    };
    let refused = go(&one);
    one.settle(&refused, AttemptMeaning::Throttled);
    arrive(one.site.unblock());
    let test = go(&one);
    for round in 0..6 {
        let entry = two.enter();
        assert!(
            matches!(entry, AdmissionDecision::Refused(_)),
            "round {round}: {entry:?}"
        );
    }
    one.settle(&test, AttemptMeaning::Success);
    let began = SystemClock.boot();
    while !matches!(two.enter(), AdmissionDecision::Go(_)) {
        assert!(SystemClock.boot().since(began) < PATIENCE, "it never goes");
    }
}
