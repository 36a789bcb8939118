//! What a Redis server keeps of a host's limits: bounded, and forgotten if it cannot be read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use docstokg_policy::classify::Outcome;
use docstokg_policy::site::{Entry, Permit};
use docstokg_policy::time::{BootInstant, Clock};
use docstokg_stores::StateStore;
use docstokg_stores::clock::SystemClock;
use docstokg_stores::conformance::arrive;
use docstokg_stores::redis::RedisStore;
use redis::{Commands, Connection};

use crate::server::Server;
use crate::worker::{Client, PATIENCE, remaining};

const KEY: &str = "docstokg:{a.example}";
const RATES: &str = "5000/SECOND";

fn open(server: &Server) -> RedisStore {
    RedisStore::open(&server.dsn(), Arc::new(SystemClock)).expect("a store")
}

fn connect(server: &Server) -> Connection {
    let client = redis::Client::open(server.dsn()).expect("a DSN");
    client.get_connection().expect("a connection")
}

fn learning(store: &dyn StateStore) -> Client {
    Client::learning(store, "a.example", RATES)
}

fn go(client: &Client) -> Permit {
    match client.enter() {
        Entry::Go(permit) => permit,
        other => panic!("expected a go, got {other:?}"),
    }
}

fn state(client: &Client, permit: &Permit, left: u32) {
    let ask = client.ask(BootInstant::ZERO);
    arrive(client.site.state_quotas(&ask, permit, &remaining(left)));
}

/// Fills the record with a snapshot, events since, and nothing left to send.
fn fill(client: &Client) {
    for left in (0..100).rev() {
        let permit = go(client);
        state(client, &permit, left);
    }
    let held = client.enter();
    assert!(matches!(held, Entry::Refused(_)), "{held:?}");
}

/// Changes the record on the server by a piece of Lua, to which it is `l`.
fn change(connection: &mut Connection, lua: &str) {
    let script = format!(
        "local raw = redis.call('GET', KEYS[1]) \
         local _, site = cmsgpack.unpack_limit(raw, 1, 76) \
         local l = site.l \
         {lua} \
         site.l = l \
         local after = cmsgpack.pack(site) \
         local header = string.sub(raw, 1, 8) .. struct.pack('<I4', 76 + #after) \
         redis.call('SET', KEYS[1], header .. string.sub(raw, 13, 76) .. after)"
    );
    let script = redis::Script::new(&script);
    let changed: Result<(), _> = script.key(KEY).invoke(connection);
    changed.expect("it runs");
}

#[test]
fn what_cannot_be_read_is_forgotten_and_learned_again() {
    let garbled = [
        (
            "a damaged snapshot",
            "l.s = l.s .. 'x' .. string.rep(string.char(255), 40)",
        ),
        (
            "an older snapshot",
            "l.s = string.char(0) .. string.sub(l.s, 2)",
        ),
        (
            "half a snapshot",
            "l.s = string.sub(l.s, 1, math.floor(#l.s / 2))",
        ),
        (
            "one bit",
            "local b = string.byte(l.s, 30) l.s = string.sub(l.s, 1, 29) .. \
          string.char((b + 1) % 256) .. string.sub(l.s, 31)",
        ),
        ("other words", "l = 'something else'"),
        ("a short event", "l.e = { 'x' }"),
        ("no list of events", "l.e = 7"),
    ];
    for (what, lua) in garbled {
        let server = Server::start();
        let mut connection = connect(&server);
        let writer = open(&server);
        fill(&learning(&writer));
        // Only the snapshot is kept, so that it alone says what is known.
        change(&mut connection, "l.e, l.b = {}, l.n");
        let before = open(&server);
        assert!(
            arrive(learning(&before).site.view())
                .site
                .quotas()
                .is_some(),
            "{what}: the snapshot alone says it"
        );
        change(&mut connection, lua);
        let reader = open(&server);
        let client = learning(&reader);
        assert!(
            arrive(client.site.view()).site.quotas().is_none(),
            "{what}: it is as if nothing were known"
        );
        let permit = go(&client);
        state(&client, &permit, 0);
        let held = client.enter();
        assert!(
            matches!(held, Entry::Refused(_)),
            "{what}: learned again, {held:?}"
        );
        // A process that knew more learns the same.
        let held = learning(&writer).enter();
        assert!(matches!(held, Entry::Refused(_)), "{what}: {held:?}");
    }
}

#[test]
fn events_that_cannot_be_read_are_forgotten() {
    let server = Server::start();
    let mut connection = connect(&server);
    let writer = open(&server);
    fill(&learning(&writer));
    change(
        &mut connection,
        "for i, event in ipairs(l.e) do l.e[i] = string.sub(event, 1, 16) .. 'words' end \
         if #l.e == 0 then l.e[1] = struct.pack('<I8I8', l.n, l.n) .. 'words' end",
    );
    let reader = open(&server);
    let client = learning(&reader);
    assert!(arrive(client.site.view()).site.quotas().is_none());
    go(&client);
}

#[test]
fn the_record_stays_small_and_a_site_without_one_is_quick_again() {
    let server = Server::start();
    let mut connection = connect(&server);
    let stores = [open(&server), open(&server)];
    let clients = stores.each_ref().map(|store| learning(store));
    let mut largest = 0;
    for left in (1..600).rev() {
        let client = &clients[left as usize % 2];
        let permit = go(client);
        state(client, &permit, left);
        client.settle(&permit, Outcome::Success);
        largest = largest.max(connection.strlen::<_, usize>(KEY).expect("a length"));
    }
    // The history of the budget grows to 4.8 kB of it.
    assert!(largest < 24_000, "{largest} bytes");
    assert!(arrive(clients[0].site.forget_learned()));
    // An answer that says nothing of quotas is of the usual kind: it is appended to the log.
    go(&clients[0]);
    let before: usize = connection.strlen(KEY).expect("a length");
    go(&clients[0]);
    let after: usize = connection.strlen(KEY).expect("a length");
    assert_eq!(after, before + 8, "the short way is taken");
}

#[test]
fn a_server_that_was_emptied_knows_nothing_and_neither_does_any_process() {
    let server = Server::start();
    let mut connection = connect(&server);
    let store = open(&server);
    let client = learning(&store);
    fill(&client);
    let _: () = redis::cmd("FLUSHALL")
        .query(&mut connection)
        .expect("it is emptied");
    assert!(arrive(client.site.view()).site.quotas().is_none());
    let other = open(&server);
    go(&learning(&other));
    assert!(arrive(client.site.view()).site.quotas().is_none());
}

/// Statements of other processes arrive faster than a request can ask: it waits a little, and goes in
/// the end, each time.
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
        let (started, mut waits) = (SystemClock.boot(), 0);
        for _ in 0..15 {
            let ask = client.ask(BootInstant::FAR);
            let mut entry = arrive(client.site.enter(&ask)).entry;
            while let Entry::Wait(reserved) = entry {
                waits += 1;
                sleep_until(reserved.at);
                entry = arrive(client.site.confirm(&ask, reserved.id)).entry;
            }
            let Entry::Go(permit) = entry else {
                is_over.store(true, Ordering::Relaxed);
                panic!("{entry:?}");
            };
            client.settle(&permit, Outcome::Success);
        }
        is_over.store(true, Ordering::Relaxed);
        let took = SystemClock.boot().since(started);
        assert!(took < PATIENCE, "{took:?} with {waits} waits");
    });
}

#[expect(clippy::disallowed_methods, reason = "a server in real time")]
fn sleep_until(at: BootInstant) {
    std::thread::sleep(at.since(SystemClock.boot()));
}
