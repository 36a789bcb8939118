//! What an operation costs on each shared store, as a ratio to a baseline measured in the same run.
//! Exits 1 when a target is missed.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark reports to its caller"
)]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::hint::black_box;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use docstokg_policy::breaker::BreakerPolicy;
use docstokg_policy::host::Host;
use docstokg_policy::rate::parse_rates;
use docstokg_policy::role::Role;
use docstokg_policy::site::{AdmissionDecision, AdmissionRequest, BudgetCost, LanePolicy};
use docstokg_policy::windows::Windows;
use docstokg_stores::clock::SystemClock;
use docstokg_stores::multiprocess::MultiprocessStore;
use docstokg_stores::redis::RedisStore;
use docstokg_stores::sqlite::SqliteStore;
use docstokg_stores::{BudgetKey, SiteHandle, StateStore, StoreReply};

#[allow(dead_code, reason = "tests use more of it")]
#[path = "../tests/it/server.rs"]
mod server;

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    if let [word, path] = arguments.as_slice()
        && word == "hammer"
    {
        return hammer(path);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let mut missed = measure_mapped(&directory.path().join("limits.shm"));
    missed += report(
        "sqlite enter",
        &database(directory.path()),
        "an immediate transaction with one update",
        2.0,
    );
    missed += measure_redis();
    std::process::exit(i32::from(missed > 0));
}

/// Measures the mapped file alone, and with another process on the same site.
fn measure_mapped(path: &std::path::Path) -> u32 {
    let alone = mapped(path);
    let mut missed = report("multiprocess enter", &alone, "Instant::now()", 8.0);
    let mut other = Other::start(path);
    let mut together = mapped(path);
    other.stop();
    together.ratio = together.call / alone.call;
    together.baseline = alone.call;
    missed += report(
        "multiprocess enter with another process on the key",
        &together,
        "alone",
        3.0,
    );
    missed
}

fn measure_redis() -> u32 {
    // Dropped at the end: `exit` runs no destructor, and the server would stay.
    let server = server::Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let one = runtime.block_on(remote(&server, 1));
    let missed = report("redis enter", &one, "a PING", 1.75);
    let many = runtime.block_on(remote(&server, 64));
    missed + report("redis enter with 64 in flight", &many, "a PING", 2.5)
}

/// Prints a timing, and returns 1 if it misses its target.
fn report(what: &str, timing: &Timing, baseline: &str, target: f64) -> u32 {
    let met = timing.ratio <= target;
    let word = if met { "ok    " } else { "MISSED" };
    let (each, base, rate) = (
        timing.call / 1_000.0,
        timing.baseline / 1_000.0,
        1e9 / timing.call,
    );
    println!(
        "{word} {what}: {:.2} x {baseline} (at most {target}); \
         {each:.2} us against {base:.2} us, {rate:.0}/s",
        timing.ratio
    );
    u32::from(!met)
}

/// Nanoseconds of a call and of its baseline: medians of rounds in turns, since machines change
/// their speed.
struct Timing {
    call: f64,
    baseline: f64,
    ratio: f64,
}

fn compare(
    rounds: usize,
    mut call: impl FnMut() -> f64,
    mut baseline: impl FnMut() -> f64,
) -> Timing {
    let (mut calls, mut baselines, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (base, cost) = (baseline(), call());
        baselines.push(base);
        calls.push(cost);
        ratios.push(cost / base);
    }
    Timing {
        call: median(calls),
        baseline: median(baselines),
        ratio: median(ratios),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the nanoseconds per call of one round.
fn round(calls: u32, mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        call();
    }
    start.elapsed().as_nanos() as f64 / f64::from(calls)
}

/// A closed breaker and two windows that never fill.
struct BenchClient {
    site: Arc<dyn SiteHandle>,
    ask: AdmissionRequest,
}

impl BenchClient {
    fn new(store: &dyn StateStore) -> Self {
        let site = store.site(&"bench.example".into());
        let budget = site.budget(&BudgetKey::Role(
            Host::parse("bench.example").expect("a host"),
            Role::Metadata,
        ));
        // The shape of the shipped defaults, so short that they never fill.
        let mut windows = parse_rates("100/SECOND+5000/HOUR").expect("rates");
        for window in &mut windows {
            window.per = Duration::from_micros(1);
        }
        let costs = [BudgetCost {
            budget,
            weight: 1,
            windows: Arc::new(Windows::new(windows, Duration::ZERO)),
            slots: None,
        }];
        let policy = LanePolicy::new(BreakerPolicy::default());
        Self {
            site,
            ask: AdmissionRequest::at_once(&costs, policy),
        }
    }

    fn enter(&self) -> StoreReply<docstokg_policy::site::AdmissionResult> {
        self.site.enter(&self.ask)
    }
}

fn mapped(path: &std::path::Path) -> Timing {
    let store = MultiprocessStore::open(path, Arc::new(SystemClock)).expect("a store");
    let client = BenchClient::new(&store);
    let enter = || {
        let StoreReply::Ready(Ok(entered)) = client.enter() else {
            panic!("mapped memory answers at once")
        };
        black_box(&entered);
    };
    let now = || {
        black_box(Instant::now());
    };
    compare(15, || round(20_000, enter), || round(50_000, now))
}

/// Another process that asks for the same key without end.
struct Other(Child);

impl Other {
    fn start(path: &std::path::Path) -> Self {
        let program = std::env::current_exe().expect("this program");
        let child = Command::new(program)
            .arg("hammer")
            .arg(path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("another process");
        std::thread::sleep(Duration::from_millis(200));
        Self(child)
    }

    fn stop(&mut self) {
        self.0.kill().expect("a living process");
        self.0.wait().expect("its end");
    }
}

fn hammer(path: &str) {
    let (path, clock) = (std::path::Path::new(path), Arc::new(SystemClock));
    let store: Arc<dyn StateStore> = if path.extension().is_some_and(|ending| ending == "sqlite") {
        Arc::new(SqliteStore::open(path, clock).expect("a store"))
    } else {
        Arc::new(MultiprocessStore::open(path, clock).expect("a store"))
    };
    let client = BenchClient::new(&*store);
    loop {
        black_box(&docstokg_stores::conformance::arrive(client.enter()));
    }
}

fn database(directory: &std::path::Path) -> Timing {
    let bare = rusqlite::Connection::open(directory.join("bare.sqlite")).expect("a database");
    bare.pragma_update(None, "journal_mode", "WAL")
        .expect("WAL");
    bare.pragma_update(None, "synchronous", "NORMAL")
        .expect("NORMAL");
    bare.execute_batch(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, log BLOB); INSERT INTO t VALUES (1, x'00')",
    )
    .expect("a table");
    // A row that becomes what it was is not written at all: each update changes it, as a step does.
    let bytes = std::cell::Cell::new([0u8; 512]);
    let transaction = || {
        let mut changed = bytes.get();
        changed[0] = changed[0].wrapping_add(1);
        bytes.set(changed);
        let transaction =
            rusqlite::Transaction::new_unchecked(&bare, rusqlite::TransactionBehavior::Immediate)
                .expect("a transaction");
        transaction
            .prepare_cached("UPDATE t SET log = ?1 WHERE id = 1")
            .expect("a statement")
            .execute([&changed[..]])
            .expect("an update");
        transaction.commit().expect("a commit");
    };
    let store =
        SqliteStore::open(&directory.join("state.sqlite"), Arc::new(SystemClock)).expect("a store");
    let client = BenchClient::new(&store);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let enter = || {
        let entered = runtime
            .block_on(async { client.enter().await })
            .expect("an answer");
        assert!(matches!(entered.entry, AdmissionDecision::Go(_)));
    };
    compare(15, || round(1_000, enter), || round(1_000, transaction))
}

async fn remote(server: &server::Server, in_flight: usize) -> Timing {
    const CALLS: usize = 4_000;
    let store = RedisStore::open(&server.dsn(), Arc::new(SystemClock)).expect("a store");
    let client = Arc::new(BenchClient::new(&store));
    let opened = redis::Client::open(server.dsn()).expect("a client");
    let manager = redis::aio::ConnectionManager::new(opened)
        .await
        .expect("a connection");
    client.enter().await.expect("the script is there");
    let (mut calls, mut baselines, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..9 {
        let start = Instant::now();
        let mut pings = tokio::task::JoinSet::new();
        for _ in 0..in_flight {
            let mut manager = manager.clone();
            pings.spawn(async move {
                for _ in 0..CALLS / in_flight {
                    redis::cmd("PING")
                        .query_async::<()>(&mut manager)
                        .await
                        .expect("a pong");
                }
            });
        }
        while pings.join_next().await.is_some() {}
        let base = start.elapsed().as_nanos() as f64 / CALLS as f64;
        let start = Instant::now();
        let mut enters = tokio::task::JoinSet::new();
        for _ in 0..in_flight {
            let client = Arc::clone(&client);
            enters.spawn(async move {
                for _ in 0..CALLS / in_flight {
                    black_box(client.enter().await.expect("an answer"));
                }
            });
        }
        while enters.join_next().await.is_some() {}
        let cost = start.elapsed().as_nanos() as f64 / CALLS as f64;
        baselines.push(base);
        calls.push(cost);
        ratios.push(cost / base);
    }
    Timing {
        call: median(calls),
        baseline: median(baselines),
        ratio: median(ratios),
    }
}
