//! Faults of a Redis server.

use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::site::AdmissionDecision;
use docstokg_policy::time::{BootInstant, Clock};
use docstokg_stores::clock::SystemClock;
use docstokg_stores::fallback::Fallback;
use docstokg_stores::redis::RedisStore;

use super::{HOUR, check, error_of_view, is_go, sentence};
use crate::clock::ManualClock;
use crate::server::Server;
use crate::worker::WorkerClient;

fn redis(server: &Server) -> RedisStore {
    RedisStore::open(&server.dsn(), Arc::new(SystemClock)).expect("a store")
}

fn command(server: &Server, words: &str) {
    let mut connection =
        std::net::TcpStream::connect(("127.0.0.1", server.port)).expect("a connection");
    write!(connection, "{words}\r\n").expect("it listens");
    let mut answer = String::new();
    BufReader::new(connection)
        .read_line(&mut answer)
        .expect("an answer");
    assert!(answer.starts_with(['+', ':']), "{answer}");
}

#[test]
fn redis_forgets_its_scripts_and_they_are_loaded_again() {
    let server = Server::start();
    let store = redis(&server);
    let client = WorkerClient::new(&store, "flush", "3/HOUR", None);
    assert!(is_go(&client));
    command(&server, "SCRIPT FLUSH");
    assert!(
        is_go(&client) && is_go(&client) && !is_go(&client),
        "the history is still there"
    );
}

#[test]
fn redis_closes_every_connection_and_the_next_call_reconnects() {
    let server = Server::start();
    let store = redis(&server);
    let client = WorkerClient::new(&store, "reset", "3/HOUR", None);
    assert!(is_go(&client));
    command(&server, "CLIENT KILL TYPE normal SKIPME yes");
    assert!(is_go(&client));
}

#[test]
fn redis_pauses_for_two_seconds_and_is_waited_for() {
    let server = Server::start();
    let store = redis(&server);
    let client = WorkerClient::new(&store, "pause", "2/HOUR", None);
    assert!(is_go(&client));
    command(&server, "CLIENT PAUSE 2000 ALL");
    assert!(is_go(&client) && !is_go(&client));
}

#[test]
fn a_redis_server_that_has_lost_its_data_is_not_taken_for_a_new_one() {
    let mut server = Server::start();
    let store = redis(&server);
    let client = WorkerClient::new(&store, "restart", "3/HOUR", None);
    let enter = || {
        let answer = client.site.enter(&client.ask(BootInstant::ZERO));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            answer
                .await
                .map(|entered| matches!(entered.entry, AdmissionDecision::Go(_)))
        })
    };
    assert!(enter().expect("an answer") && enter().expect("an answer"));
    server.restart();
    let said = enter().expect_err("its data is gone").to_string();
    assert!(said.contains("has lost its data"), "{said}");
    assert!(
        enter().expect("an answer"),
        "after the error it counts as a new one"
    );
    command(&server, "FLUSHALL");
    // Another process was first on the emptied server: one that knows the old site still gets the
    // error.
    let other = redis(&server);
    assert!(is_go(&WorkerClient::new(&other, "restart", "3/HOUR", None)));
    assert!(enter().is_err());
}

#[test]
fn when_a_redis_server_is_emptied_no_process_sends_for_a_window() {
    let server = Server::start();
    let clock = Arc::new(SystemClock);
    let stores = [(), ()].map(|()| {
        Fallback::new(
            Arc::new(redis(&server)),
            Arc::clone(&clock) as Arc<dyn Clock>,
            Arc::new(|_: &str| ()),
            2,
        )
    });
    let clients = stores
        .each_ref()
        .map(|store| WorkerClient::new(store, "emptied", "2/MINUTE", None));
    assert!(clients.iter().all(is_go));
    command(&server, "FLUSHALL");
    for _ in 0..3 {
        assert!(
            !clients.iter().any(is_go),
            "two were permitted just before, whatever the server knows"
        );
        clients.iter().for_each(check);
    }
}

#[test]
fn a_redis_key_of_another_layout_is_refused_with_a_sentence() {
    let server = Server::start();
    let store = redis(&server);
    for (host, layout) in [("older", '\u{2}'), ("later", '\u{5}')] {
        let set = format!(
            "*4\r\n$8\r\nSETRANGE\r\n$16\r\ndocstokg:{{{host}}}\r\n$1\r\n0\r\n$6\r\n{layout}later"
        );
        command(&server, &set);
        let said = error_of_view(&store, host);
        let version = format!(
            "its layout is version {}, this one reads 4",
            u32::from(layout)
        );
        assert!(
            said.contains(&version) && said.contains("run the version that wrote it"),
            "{said}"
        );
    }
}

#[test]
fn a_client_whose_clock_is_an_hour_off_shares_the_same_windows() {
    let server = Server::start();
    let right = redis(&server);
    let early = RedisStore::open(&server.dsn(), ManualClock::at_wall(1, -HOUR)).expect("a store");
    let late = RedisStore::open(&server.dsn(), ManualClock::at_wall(7_200_000_000_000, HOUR))
        .expect("a store");
    let clients =
        [&right, &early, &late].map(|store| WorkerClient::new(store, "skew", "3/HOUR", None));
    assert!(clients.iter().all(is_go));
    for client in &clients {
        let AdmissionDecision::Refused(refusal) = client.enter() else {
            panic!("a fourth")
        };
        let here = [
            SystemClock.boot(),
            BootInstant::from_micros(1),
            BootInstant::from_micros(7_200_000_000_000),
        ];
        let left = here
            .map(|now| refusal.until.since(now))
            .into_iter()
            .find(|left| *left > Duration::from_secs(3_500) && *left < Duration::from_secs(3_601));
        assert!(left.is_some(), "on the caller's own clock: {refusal:?}");
    }
}

#[test]
fn a_password_is_used_and_never_said() {
    let server = Server::with_password(Some("SECRET"));
    let dsn = format!("redis://:SECRET@127.0.0.1:{}/0", server.port);
    let store = RedisStore::open(&dsn, Arc::new(SystemClock)).expect("a store");
    assert!(is_go(&WorkerClient::new(
        &store, "password", "1/HOUR", None
    )));
    let wrong = RedisStore::open(
        &dsn.replace("SECRET", "WRONG-SECRET"),
        Arc::new(SystemClock),
    )
    .expect("a store");
    let said = error_of_view(&wrong, "x");
    assert!(
        !said.contains("SECRET") && said.contains("redis://***@127.0.0.1"),
        "{said}"
    );
    assert!(
        !sentence(RedisStore::open("redis://:SECRET@[", Arc::new(SystemClock))).contains("SECRET")
    );
}

#[test]
fn a_server_that_is_not_there_has_a_sentence() {
    let mut server = Server::start();
    server.kill();
    let said = error_of_view(&redis(&server), "x");
    assert!(
        said.contains(&format!(
            "the redis server redis://127.0.0.1:{}/0 does not answer",
            server.port
        )),
        "{said}"
    );
}
