//! The record of a site on a Redis server: a log of what processes asked, and a snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::site::{AdmissionDecision, AdmissionRequest, Permit, QueuePosition};
use docstokg_policy::time::{BootInstant, Clock};
use docstokg_stores::clock::SystemClock;
use docstokg_stores::conformance::arrive;
use docstokg_stores::redis::RedisStore;
use docstokg_stores::{StateStore, StoreError};
use redis::{Commands, Connection};

use super::{error_of_view, is_go};
use crate::server::Server;
use crate::worker::{PATIENCE, WorkerClient, remaining};

// A server that is far away, or whose answer does not arrive.
mod distance;

const KEY: &str = "docstokg:{a.example}";
const RATES: &str = "5000/SECOND";
/// Where a record names the version of the program that wrote it.
const VERSION: isize = 9;

fn open(server: &Server) -> RedisStore {
    open_at(&server.dsn())
}

fn open_at(dsn: &str) -> RedisStore {
    RedisStore::open(dsn, Arc::new(SystemClock)).expect("a store")
}

fn connect(server: &Server) -> Connection {
    let client = redis::Client::open(server.dsn()).expect("a DSN");
    client.get_connection().expect("a connection")
}

fn client(store: &dyn StateStore, rates: &str) -> WorkerClient {
    WorkerClient::new(store, "a.example", rates, None)
}

fn learning(store: &dyn StateStore) -> WorkerClient {
    WorkerClient::learning(store, "a.example", RATES)
}

fn go(client: &WorkerClient) -> Permit {
    match client.enter() {
        AdmissionDecision::Go(permit) => permit,
        other => panic!("expected a go, got {other:?}"),
    }
}

fn try_enter(client: &WorkerClient) -> Result<AdmissionDecision, StoreError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(client.try_enter())
}

fn state(client: &WorkerClient, permit: &Permit, left: u32) {
    let ask = client.ask(BootInstant::ZERO);
    arrive(client.site.state_quotas(&ask, permit, &remaining(left)));
}

/// How often the script was called.
fn calls(connection: &mut Connection) -> usize {
    let said: String = redis::cmd("INFO")
        .arg("commandstats")
        .query(connection)
        .expect("statistics");
    let calls = said
        .split_once("cmdstat_evalsha:calls=")
        .map_or("0", |(_, rest)| rest);
    let digits = calls.split(',').next().expect("a number");
    digits.parse().expect("a number")
}

#[test]
fn operation_without_effect_is_not_sent_to_redis() {
    let server = Server::start();
    let mut connection = connect(&server);
    let store = open(&server);
    let client = client(&store, "5/HOUR");
    go(&client);
    let before = calls(&mut connection);
    let permits = [go(&client), go(&client)];
    let before = before + permits.len();
    assert_eq!(calls(&mut connection), before, "one call for each permit");
    let ask = client.ask(BootInstant::ZERO);
    for permit in &permits {
        arrive(
            client
                .site
                .settle_headers(&ask, permit, AttemptMeaning::Success),
        );
        client.settle(permit, AttemptMeaning::Success);
    }
    assert_eq!(calls(&mut connection), before);
    client.settle(&permits[0], AttemptMeaning::Failure);
    assert_eq!(calls(&mut connection), before + 1, "a failure is told");
}

#[test]
fn a_refusal_is_not_recorded() {
    let server = Server::start();
    let mut connection = connect(&server);
    let store = open(&server);
    let client = client(&store, "1/HOUR");
    go(&client);
    assert!(!is_go(&client));
    let before: usize = connection.strlen(KEY).expect("a length");
    for _ in 0..20 {
        assert!(!is_go(&client));
    }
    let after: usize = connection.strlen(KEY).expect("a length");
    assert_eq!(after, before);
}

/// What is decided without a record counts on the clock of the server as well.
#[test]
fn a_request_behind_others_waits_for_its_turn_and_is_not_refused() {
    let server = Server::start();
    let mut connection = connect(&server);
    let store = open(&server);
    let client = client(&store, "1/HOUR");
    go(&client);
    assert!(!is_go(&client));
    let before: usize = connection.strlen(KEY).expect("a length");
    for queue_position in [QueuePosition::Behind(0), QueuePosition::Overlapping] {
        let patient = SystemClock.boot() + Duration::from_secs(3 * 3_600);
        let ask = AdmissionRequest {
            queue_position,
            deadline: patient,
            ..client.ask(patient)
        };
        let entry = arrive(client.site.enter(&ask)).entry;
        let AdmissionDecision::Queue { at } = entry else {
            panic!("{entry:?}")
        };
        let wait = at.since(SystemClock.boot());
        let hour = Duration::from_secs(3_590)..Duration::from_secs(3_601);
        assert!(hour.contains(&wait), "{wait:?}");
    }
    let after: usize = connection.strlen(KEY).expect("a length");
    assert_eq!(after, before, "nothing was recorded");
}

fn wait_for_permit(client: &WorkerClient) -> Permit {
    let (ask, begun) = (client.ask(BootInstant::FAR), SystemClock.boot());
    let mut entry = arrive(client.site.enter(&ask)).entry;
    loop {
        entry = match entry {
            AdmissionDecision::Go(permit) => return permit,
            AdmissionDecision::Wait(reserved) => {
                sleep_until(reserved.at);
                arrive(client.site.confirm(&ask, reserved.id)).entry
            }
            other => panic!("{other:?}"),
        };
        assert!(SystemClock.boot().since(begun) < PATIENCE, "it never goes");
    }
}

#[test]
fn redis_record_stays_below_24_kilobytes() {
    let server = Server::start();
    let mut connection = connect(&server);
    let stores = [open(&server), open(&server)];
    let clients = stores.each_ref().map(|store| learning(store));
    let mut largest = 0;
    for left in (1..600).rev() {
        let client = &clients[left as usize % 2];
        let permit = go(client);
        state(client, &permit, left);
        client.settle(&permit, AttemptMeaning::Success);
        largest = largest.max(connection.strlen::<_, usize>(KEY).expect("a length"));
    }
    // The history of the budget grows to 4.8 kB of it.
    assert!(largest < 24_000, "{largest} bytes");
    // Who was away reads the snapshot, and knows the same.
    let third = open(&server);
    let views = [
        arrive(clients[0].site.view()),
        arrive(learning(&third).site.view()),
    ];
    let [known, read] = views
        .each_ref()
        .map(|view| view.site.budgets()[0].history());
    assert_eq!(known, read);
    let [known, read] = views.each_ref().map(|view| view.site.quotas());
    assert_eq!(known, read);
}

#[test]
fn a_record_of_another_version_of_the_program_is_taken_over() {
    let server = Server::start();
    let mut connection = connect(&server);
    let stores = [open(&server), open(&server)];
    let clients = stores.each_ref().map(|store| client(store, "5/HOUR"));
    assert!(clients.iter().all(is_go));
    for client in clients.iter().chain(&clients) {
        let _: usize = connection
            .setrange(KEY, VERSION, "another!")
            .expect("a record");
        let _ = client.enter();
        let version: Vec<u8> = connection.getrange(KEY, VERSION, VERSION + 7).expect("it");
        assert_ne!(version, b"another!", "it is this version's now");
    }
    assert!(!clients.iter().any(is_go), "five were permitted");
}

#[test]
fn a_server_with_older_data_has_lost_data() {
    let server = Server::start();
    let mut connection = connect(&server);
    let (store, other) = (open(&server), open(&server));
    let (client, other) = (client(&store, "9/HOUR"), client(&other, "9/HOUR"));
    go(&client);
    let before: Vec<u8> = connection.get(KEY).expect("a record");
    go(&client);
    go(&client);
    for adds in [false, true] {
        let _: () = connection.set(KEY, &before).expect("it is restored");
        if adds {
            // Another process goes on from there, farther than before.
            (0..3).for_each(|_| drop(go(&other)));
        }
        let said = try_enter(&client)
            .expect_err("its data is gone")
            .to_string();
        assert!(said.contains("has lost its data"), "{said}");
        // After the error it counts as it finds it.
        go(&client);
    }
    for client in [&client, &other] {
        let view = arrive(client.site.view());
        assert_eq!(view.site.budgets()[0].instants().count(), 5);
    }
}

#[test]
fn a_damaged_record_has_a_sentence() {
    let server = Server::start();
    let mut connection = connect(&server);
    let store = open(&server);
    go(&client(&store, "9/HOUR"));
    let _: usize = connection.append(KEY, "words").expect("a record");
    let said = error_of_view(&open(&server), "a.example");
    assert!(
        said.contains("not one that this version understands"),
        "{said}"
    );
}

#[test]
fn a_server_that_was_emptied_knows_nothing_and_neither_does_any_process() {
    let server = Server::start();
    let mut connection = connect(&server);
    let store = open(&server);
    let client = learning(&store);
    for left in (0..100).rev() {
        let permit = go(&client);
        state(&client, &permit, left);
    }
    assert!(!is_go(&client), "nothing is left");
    let _: () = redis::cmd("FLUSHALL")
        .query(&mut connection)
        .expect("it is emptied");
    assert!(arrive(client.site.view()).site.quotas().is_none());
    assert!(try_enter(&client).is_err(), "it is told before it sends");
    let other = open(&server);
    go(&learning(&other));
    assert!(arrive(client.site.view()).site.quotas().is_none());
}

/// Statements of other processes arrive faster than a request can ask: it goes each time.
#[test]
fn a_request_that_others_overtake_again_and_again_goes_in_the_end() {
    let server = Server::start();
    let store = open(&server);
    let client = learning(&store);
    let first = go(&client);
    state(&client, &first, 1_900);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let store = open(&server);
                let other = learning(&store);
                while !is_over.load(Ordering::Relaxed) {
                    state(&other, &first, 1_900);
                }
            });
        }
        for _ in 0..15 {
            let permit = wait_for_permit(&client);
            client.settle(&permit, AttemptMeaning::Success);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

#[expect(clippy::disallowed_methods, reason = "a server in real time")]
fn sleep_until(at: BootInstant) {
    std::thread::sleep(at.since(SystemClock.boot()));
}
