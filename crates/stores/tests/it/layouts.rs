//! Stores that an earlier version wrote: blocks, breakers and history are kept. The files under
//! `tests/data` were written by that version: three answers of `history.example`, a 429 with
//! Retry-After of an hour, two failures, an operator's pause, and a waiting process that was
//! killed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::breaker::OpenReason;
use docstokg_policy::rate::parse_rates;
use docstokg_policy::windows::Windows;
use docstokg_stores::conformance::arrive;
use docstokg_stores::redis::RedisStore;
use docstokg_stores::sqlite::SqliteStore;
use docstokg_stores::{SiteHandle, SiteView, StateStore};

use crate::clock::ManualClock;
use crate::server::Server;

/// The boot of the machine, and the clocks, when the database was last written.
const BOOT_ID: &str = "f296266e-8669-43e6-b2b9-d72d8bb2d9a0";
const BOOT: u64 = 3_456_626_300_000;
const WALL: i64 = 1_794_815_001_746_017;
/// The server's clock when its keys were read.
const SERVER: u64 = 1_794_815_003_000_000;

fn used(view: &SiteView, rates: &str) -> Vec<u64> {
    let windows = Windows::new(parse_rates(rates).expect("rates"), Duration::ZERO);
    windows
        .list()
        .iter()
        .map(|window| view.site.budgets()[0].used(&windows, window, view.now))
        .collect()
}

/// Checks that the state of the earlier version is read.
fn check(site: impl Fn(&str) -> Arc<dyn SiteHandle>) {
    let view = |host: &str| arrive(site(host).view());
    let history = view("history.example");
    assert_eq!(
        used(&history, "10/SECOND+5000/HOUR"),
        [0, 3],
        "the history is kept"
    );
    let throttled = view("throttled.example");
    let (until, reason) = throttled.open_until().expect("still blocked");
    assert_eq!(reason, &OpenReason::RetryAfter);
    assert!(
        (3_590..3_600).contains(&until.since(throttled.now).as_secs()),
        "{until:?}"
    );
    let paused = view("paused.example");
    let (until, reason) = paused.open_until().expect("still paused");
    assert_eq!(reason.to_string(), "cli-open:maintenance until December");
    assert!(
        (2_591_990..2_592_000).contains(&until.since(paused.now).as_secs()),
        "{until:?}"
    );
    assert_eq!(
        view("failing.example").failures(),
        2,
        "failures in a row are kept"
    );
    let waiting = view("waiting.example");
    assert_eq!(used(&waiting, "1/20SECOND"), [1]);
    assert_eq!(
        waiting.site.budgets()[0].count_waiting(waiting.now),
        0,
        "reservations are not: they had no positions"
    );
}

#[test]
fn a_database_of_the_first_version_keeps_what_it_knew() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state.sqlite");
    std::fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/state-layout-1.sqlite"),
        &path,
    )
    .expect("a copy");
    let clock = || ManualClock::at_wall(BOOT, WALL);
    for _ in 0..2 {
        let store = SqliteStore::open_after_boot(&path, clock(), BOOT_ID).expect("it is read");
        check(|host| store.site(&host.into()));
    }
    // The machine was rebooted since: the block ends by wall time.
    let store = SqliteStore::open_after_boot(&path, clock(), "another start").expect("it is read");
    check(|host| store.site(&host.into()));
}

#[test]
fn keys_of_the_second_redis_layout_keep_what_they_knew() {
    let text = include_str!("../data/redis-layout-2.json");
    let keys: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(text).expect("JSON");
    let server = Server::start();
    for (key, value) in keys {
        let value = value.as_str().expect("hex");
        let bytes: Vec<u8> = (0..value.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&value[at..at + 2], 16).expect("hex"))
            .collect();
        let mut connection = TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
        write!(
            connection,
            "*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n${}\r\n",
            key.len(),
            bytes.len()
        )
        .expect("it listens");
        connection
            .write_all(&[&bytes[..], b"\r\n"].concat())
            .expect("it listens");
        let mut answer = [0; 5];
        connection.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"+OK\r\n");
    }
    let clock = ManualClock::at_wall(SERVER, WALL);
    let store = RedisStore::open(&server.dsn(), clock).expect("a store");
    check(|host| store.site_on_own_time(&host.into()).0);
    // Written in this layout, they still say the same.
    for host in [
        "history.example",
        "throttled.example",
        "paused.example",
        "failing.example",
        "waiting.example",
    ] {
        arrive(
            store
                .site_on_own_time(&host.into())
                .0
                .renew(&[1], Duration::ZERO),
        );
    }
    check(|host| store.site_on_own_time(&host.into()).0);
}
