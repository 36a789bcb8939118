//! A hostile Redis server: what it announces is refused as a lost store, before it costs memory.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use docstokg_policy::time::Clock;
use docstokg_stores::clock::SystemClock;
use docstokg_stores::redis::RedisStore;
use docstokg_stores::{StateStore, StoreError};

use crate::worker::WorkerClient;

/// The most that is read from one connection: the bound of an answer, and what sockets buffer.
const MAX_READ: usize = 32 << 20;

/// A server that greets as Redis does, and then answers each command with `first` and `then`
/// without an end.
struct Hostile {
    port: u16,
    connections: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Hostile {
    fn start(first: &[u8], then: &[u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let hostile = Self {
            port,
            connections: Arc::default(),
            most: Arc::default(),
        };
        let (connections, most) = (Arc::clone(&hostile.connections), Arc::clone(&hostile.most));
        let (first, then) = (first.to_vec(), then.repeat((1 << 16) / then.len().max(1)));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::SeqCst);
                let (first, then, most) = (first.clone(), then.clone(), Arc::clone(&most));
                std::thread::spawn(move || {
                    most.fetch_max(answer(stream, &first, &then), Ordering::SeqCst)
                });
            }
        });
        hostile
    }

    fn store(&self) -> RedisStore {
        RedisStore::open(
            &format!("redis://127.0.0.1:{}/0", self.port),
            Arc::new(SystemClock),
        )
        .expect("a store")
    }
}

/// Answers one connection, and returns how much was sent to it.
fn answer(mut stream: TcpStream, first: &[u8], then: &[u8]) -> usize {
    let (mut buffer, mut sent) = (vec![0; 1 << 16], 0);
    let limit = Duration::from_secs(20);
    let _ = stream.set_write_timeout(Some(limit));
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        let greetings = String::from_utf8_lossy(&buffer[..length])
            .matches("SETINFO")
            .count();
        if greetings > 0 {
            let _ = stream.write_all("+OK\r\n".repeat(greetings).as_bytes());
            continue;
        }
        if stream.write_all(first).is_err() {
            break;
        }
        sent += first.len();
        while !then.is_empty() && sent < 16 * MAX_READ && stream.write_all(then).is_ok() {
            sent += then.len();
        }
    }
    sent
}

/// A name, what the server answers first and then without an end, and why that is refused.
type Case<'a> = (&'a str, &'a [u8], &'a [u8], &'a str);

const CASES: [Case<'static>; 7] = [
    (
        "a text of an exabyte",
        b"$1000000000000000000\r\n",
        b"x",
        "it announces a text that is too long",
    ),
    (
        "a text that is too long, in full",
        b"$8388609\r\n",
        b"x",
        "it announces a text that is too long",
    ),
    (
        "a billion values",
        b"*1000000000\r\n:1\r\n",
        b"",
        "it announces too many values",
    ),
    (
        "more values than there are numbers",
        b"*9223372036854775807\r\n:1\r\n",
        b":1\r\n",
        "it announces too many values",
    ),
    (
        "a map of them",
        b"%9223372036854775807\r\n:1\r\n",
        b":1\r\n",
        "it announces too many values",
    ),
    (
        "a line without an end",
        b"+",
        b"x",
        "a line of its answer is too long",
    ),
    (
        "an error without an end",
        b"-ERR ",
        b"x",
        "a line of its answer is too long",
    ),
];

#[test]
fn answers_beyond_the_bounds_are_a_lost_store() {
    let deep = "*1\r\n".repeat(100_000);
    let nested: Case = (
        "values in values",
        deep.as_bytes(),
        b"",
        "nested too deeply",
    );
    let runtime = runtime();
    for (name, first, then, why) in CASES.into_iter().chain([nested]) {
        let server = Hostile::start(first, then);
        let store = server.store();
        let client = WorkerClient::new(&store, "hostile", "3/HOUR", None);
        let begun = SystemClock.boot();
        match runtime.block_on(client.try_enter()) {
            Err(StoreError::Unavailable { why: reported, .. }) => {
                assert!(reported.contains(why), "{name}: {reported}");
            }
            other => panic!("{name}: {other:?}"),
        }
        let took = SystemClock.boot().since(begun);
        assert!(took < Duration::from_secs(10), "{name} took {took:?}");
        drop((client, store));
        let (sent, connections) = (
            server.most.load(Ordering::SeqCst),
            server.connections.load(Ordering::SeqCst),
        );
        assert!(
            sent < MAX_READ,
            "{name}: {sent} bytes were read from one connection"
        );
        assert!(
            (1..=8).contains(&connections),
            "{name}: {connections} connections"
        );
    }
}

/// A list of keys that never ends, whose every part is small.
#[test]
fn a_list_without_an_end_is_a_lost_store() {
    let part = (0..60_000)
        .map(|number| format!("$16\r\ndocstokg:{{{number:05}}}\r\n"))
        .collect::<Vec<_>>()
        .concat();
    let server = Hostile::start(format!("*2\r\n$1\r\n7\r\n*60000\r\n{part}").as_bytes(), b"");
    let store = server.store();
    match runtime().block_on(async { store.list().await }) {
        Err(StoreError::Unavailable { why, .. }) => assert_eq!(why, "its list of sites has no end"),
        other => panic!("{other:?}"),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
}
