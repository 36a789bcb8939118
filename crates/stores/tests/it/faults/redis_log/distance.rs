//! A server that is far away, or whose answer does not arrive.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use docstokg_policy::rate::Window;
use docstokg_policy::site::AdmissionDecision;
use docstokg_policy::time::{BootInstant, Clock};
use docstokg_policy::windows::Windows;
use docstokg_stores::StateStore;
use docstokg_stores::clock::SystemClock;
use docstokg_stores::conformance::arrive;

use super::super::is_go;
use super::{RATES, calls, client, connect, go, open, open_at, wait_for_permit};
use crate::server::Server;
use crate::slow_link::SlowLink;
use crate::worker::WorkerClient;

#[test]
fn a_call_whose_answer_was_lost_is_repeated_and_counts_once() {
    let server = Server::start();
    let link = SlowLink::start(server.port, Duration::ZERO);
    let store = open_at(&link.dsn(0));
    let client = client(&store, "4/HOUR");
    go(&client);
    for _ in 0..2 {
        link.lose_next_answer();
        go(&client);
    }
    // Another process reads what was added twice.
    let other = open(&server);
    let other = super::client(&other, "4/HOUR");
    go(&other);
    assert!(!is_go(&client) && !is_go(&other), "four were permitted");
    for client in [&client, &other] {
        let view = arrive(client.site.view());
        let windows = &client.costs[0].windows;
        let used = view.site.budgets()[0].used(windows, &windows.list()[0], view.now);
        assert_eq!(used, 4);
    }
}

#[test]
fn operations_that_wait_for_the_server_share_a_call() {
    let server = Server::start();
    let mut connection = connect(&server);
    let link = SlowLink::start(server.port, Duration::from_millis(20));
    let store = open_at(&link.dsn(0));
    let client = client(&store, RATES);
    go(&client);
    let before = calls(&mut connection);
    let ask = client.ask(BootInstant::ZERO);
    let asked: Vec<_> = (0..100).map(|_| client.site.enter(&ask)).collect();
    for answer in asked {
        assert!(matches!(arrive(answer).entry, AdmissionDecision::Go(_)));
    }
    let calls = calls(&mut connection) - before;
    assert!(calls <= 4, "{calls} calls for a hundred operations");
}

/// Several calls are on their way to a server that is far away, while a process that is near adds to
/// the log.
#[test]
fn calls_that_are_on_their_way_together_permit_no_more_than_the_limit() {
    let server = Server::start();
    let link = SlowLink::start(server.port, Duration::from_millis(20));
    let (store, other) = (open_at(&link.dsn(0)), open(&server));
    let (far, near) = (client(&store, "60/HOUR"), client(&other, "60/HOUR"));
    go(&far);
    let (ask, mut permitted) = (far.ask(BootInstant::ZERO), 1);
    let mut begin = || {
        permitted += usize::from(is_go(&near));
        far.site.enter(&ask)
    };
    let asked: Vec<_> = (0..80).map(|_| begin()).collect();
    for answer in asked {
        permitted += usize::from(matches!(arrive(answer).entry, AdmissionDecision::Go(_)));
    }
    assert_eq!(permitted, 60);
    let views = [&far, &near].map(|client| arrive(client.site.view()));
    let [of_far, of_near] = views
        .each_ref()
        .map(|view| view.site.budgets()[0].history());
    assert_eq!(of_far, of_near);
}

/// However long question and answer take, a permit counts from the instant at which the server got
/// the question: not before it was given.
#[test]
fn a_permit_counts_from_an_instant_between_question_and_answer() {
    let server = Server::start();
    let mut connection = connect(&server);
    let link = SlowLink::start(server.port, Duration::from_millis(60));
    let store = open_at(&link.dsn(0));
    let client = client(&store, RATES);
    go(&client);
    let mut time = || {
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut connection).expect("it");
        BootInstant::from_micros(seconds * 1_000_000 + micros)
    };
    for _ in 0..3 {
        let (before, here) = (time(), SystemClock.boot());
        let permit = go(&client);
        let after = time();
        let late = Duration::from_millis(50);
        assert!(permit.stamp.since(before) >= late, "the question took time");
        assert!(after.since(permit.stamp) >= late, "and so did the answer");
        assert!(
            permit.at.since(here) < late,
            "its age counts from the question"
        );
    }
}

/// Four processes are near and ask without a pause, a fifth is forty milliseconds away.
#[test]
fn a_process_that_is_far_away_gets_its_share() {
    let server = Server::start();
    let link = SlowLink::start(server.port, Duration::from_millis(20));
    let is_over = AtomicBool::new(false);
    let near = AtomicUsize::new(0);
    let mut of_far = 0;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let store = open(&server);
                let client = paced(&store);
                while !is_over.load(Ordering::Relaxed) {
                    wait_for_permit(&client);
                    near.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let store = open_at(&link.dsn(0));
        let client = paced(&store);
        wait_for_permit(&client);
        let begun = near.load(Ordering::Relaxed);
        while near.load(Ordering::Relaxed) < begun + 120 {
            wait_for_permit(&client);
            of_far += 1;
        }
        is_over.store(true, Ordering::Relaxed);
    });
    // The same as the others would be thirty.
    assert!(of_far >= 12, "{of_far} beside 120 of four others");
}

/// A client of a host that admits one request in twenty milliseconds.
fn paced(store: &dyn StateStore) -> WorkerClient {
    let mut client = client(store, "1/SECOND");
    let window = Window::new(NonZeroU32::MIN, Duration::from_millis(20));
    client.costs[0].windows = Arc::new(Windows::new([window], Duration::ZERO));
    client
}
