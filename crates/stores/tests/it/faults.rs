//! What goes wrong with stores: each fault has a sentence, and no window is exceeded.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::breaker::{BreakerPolicy, OpenReason};
use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::role::Role;
use docstokg_policy::site::{AdmissionDecision, AdmissionRequest, AttemptResult, LanePolicy};
use docstokg_policy::time::Clock;
use docstokg_stores::clock::SystemClock;
use docstokg_stores::conformance::arrive;
use docstokg_stores::multiprocess::MultiprocessStore;
use docstokg_stores::sqlite::SqliteStore;
use docstokg_stores::{StateStore, StoreError};

use crate::clock::ManualClock;
use crate::worker::WorkerClient;

// A shared store that is unavailable for a time.
mod outages;
// Faults of a Redis server.
mod redis;
// The record of a site on a Redis server: a log, and a snapshot.
mod redis_log;
// Records of this layout, as they were once written.
mod redis_format;
// Records of an earlier layout.
mod redis_layout;

const HOUR: i64 = 3_600_000_000;

/// Lets a process check whether the store is back, as its heartbeat does.
fn check(client: &WorkerClient) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let _ = runtime.block_on(async { client.site.renew(&[], Duration::from_secs(1)).await });
}

fn is_go(client: &WorkerClient) -> bool {
    matches!(client.enter(), AdmissionDecision::Go(_))
}

/// Returns the sentence of a store that cannot be viewed.
fn error_of_view(store: &dyn StateStore, key: &str) -> String {
    let answer = store.site(&key.into()).view();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async { answer.await.expect_err("an error").to_string() })
}

fn sentence<T>(opened: Result<T, StoreError>) -> String {
    match opened {
        Ok(_) => panic!("it was opened"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn setting_the_wall_clock_changes_no_window() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state.sqlite");
    let now = SystemClock.boot().as_micros();
    for step in [0, HOUR, -HOUR] {
        let clock = ManualClock::at_wall(now, 1_700_000_000_000_000 + step);
        let store = SqliteStore::open(&path, clock).expect("a store");
        let client = WorkerClient::new(&store, "wall", "2/HOUR", None);
        assert_eq!(
            is_go(&client),
            step != -HOUR,
            "two an hour, whatever the wall clock says"
        );
    }
}

#[test]
fn another_boot_of_the_machine_continues_by_wall_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let (file, database) = (
        directory.path().join("limits.shm"),
        directory.path().join("state.sqlite"),
    );
    let open = |clock: Arc<ManualClock>, boot: &str| -> [Arc<dyn StateStore>; 2] {
        [
            Arc::new(
                MultiprocessStore::open_after_boot(&file, clock.shared(), boot).expect("a store"),
            ),
            Arc::new(SqliteStore::open_after_boot(&database, clock, boot).expect("a store")),
        ]
    };
    // Like the system's clock, these have time before the boot of the machine.
    let day = 86_400_000_000;
    for store in open(ManualClock::at_wall(day + 9_000_000_000, 0), "first") {
        let client = WorkerClient::new(&*store, "quota", "2/HOUR", None);
        assert!(is_go(&client) && is_go(&client));
        let blocked = store.site(&"blocked".into());
        arrive(blocked.block(
            Duration::from_secs(3_600),
            &OpenReason::Operator("test".into()),
        ));
    }
    // The machine boots again twenty minutes later: its clock counts from zero.
    for store in open(ManualClock::at_wall(day + 5_000_000, HOUR / 3), "second") {
        let client = WorkerClient::new(&*store, "quota", "2/HOUR", None);
        assert!(!is_go(&client), "the quota is remembered");
        let view = arrive(store.site(&"blocked".into()).view());
        let (until, _) = view.open_until().expect("still blocked");
        assert_eq!(
            until.since(view.now),
            Duration::from_secs(2_400),
            "and so is the block"
        );
    }
    for store in open(
        ManualClock::at_wall(day + 1_000_000, HOUR + HOUR / 60),
        "third",
    ) {
        assert!(
            is_go(&WorkerClient::new(&*store, "quota", "2/HOUR", None)),
            "in its time it is free again"
        );
    }
}

#[test]
fn an_operator_reads_cooldowns_with_plain_sql() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state.sqlite");
    let store = SqliteStore::open(&path, Arc::new(SystemClock)).expect("a store");
    arrive(store.site(&"a.example".into()).block(
        Duration::from_secs(90),
        &OpenReason::Operator("lunch".into()),
    ));
    arrive(store.site(&"b.example".into()).view());
    let connection = rusqlite::Connection::open(&path).expect("the database");
    let query = "SELECT host, until_wall - unixepoch('subsec'), reason, updated_at > 0 \
                 FROM breaker_cooldowns";
    let rows: Vec<(String, f64, String, bool)> = connection
        .prepare(query)
        .and_then(|mut query| {
            query
                .query_map([], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
                })?
                .collect()
        })
        .expect("rows");
    let [(host, left, reason, updated)] = rows.as_slice() else {
        panic!("{rows:?}")
    };
    assert_eq!(
        (host.as_str(), reason.as_str(), *updated),
        ("a.example", "cli-open:lunch", true)
    );
    assert!((80.0..=90.1).contains(left), "{left}");

    // A role that is open alone is listed, and named.
    let breaker = BreakerPolicy {
        fail_max: NonZeroU32::MIN,
        early_probes: false,
        ..BreakerPolicy::default()
    };
    let policy = LanePolicy {
        isolated: true,
        ..LanePolicy::new(breaker)
    };
    let ask = AdmissionRequest {
        role: Role::Artifact,
        ..AdmissionRequest::at_once(&[], policy)
    };
    let site = store.site(&"c.example".into());
    let AdmissionDecision::Go(permit) = arrive(site.enter(&ask)).entry else {
        panic!("refused")
    };
    let report = AttemptResult {
        outcome: AttemptMeaning::Failure,
        retry_after: None,
        sent: permit.at,
        wants_retry: false,
        maybe_refused: false,
    };
    arrive(site.settle(&ask, &permit, &report));
    let reason: String = connection
        .query_row(
            "SELECT reason FROM breaker_cooldowns WHERE host = 'c.example'",
            [],
            |row| row.get(0),
        )
        .expect("a row");
    assert_eq!(reason, "consecutive (artifact alone)");
    arrive(store.site(&"a.example".into()).unblock());
    let count: i64 = connection
        .query_row(
            "SELECT count(*) FROM breaker_cooldowns WHERE host = 'a.example'",
            [],
            |row| row.get(0),
        )
        .expect("a count");
    assert_eq!(count, 0);
}

#[test]
fn files_that_are_not_ours_are_refused_with_a_sentence() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    let clock = || Arc::new(SystemClock);
    let map = |path: &Path| MultiprocessStore::open(path, clock());
    let base = |path: &Path| SqliteStore::open(path, clock());

    std::fs::write(at("garbage.shm"), [7; 100]).expect("a file");
    assert!(
        sentence(map(&at("garbage.shm"))).contains("remove the file"),
        "garbage"
    );
    std::fs::write(at("long.shm"), vec![7; 1 << 20]).expect("a file");
    assert!(
        sentence(map(&at("long.shm"))).contains("it is something else"),
        "long garbage"
    );
    drop(map(&at("cut.shm")).expect("a store"));
    std::fs::OpenOptions::new()
        .write(true)
        .open(at("cut.shm"))
        .and_then(|file| file.set_len(5_000))
        .expect("cut");
    assert!(
        sentence(map(&at("cut.shm"))).contains("it has been cut"),
        "cut"
    );
    drop(map(&at("old.shm")).expect("a store"));
    let mut bytes = std::fs::read(at("old.shm")).expect("a file");
    bytes[8] = 0;
    std::fs::write(at("old.shm"), bytes).expect("a file");
    assert!(
        sentence(map(&at("old.shm"))).contains("layout is version 0, this one reads 4"),
        "older"
    );
    assert!(
        sentence(map(Path::new("/proc/nowhere/limits.shm")))
            .contains("make it and its directory writable"),
        "read-only"
    );

    std::fs::write(at("garbage.sqlite"), [7; 5_000]).expect("a file");
    assert!(
        sentence(base(&at("garbage.sqlite"))).contains("not a database"),
        "garbage"
    );
    drop(base(&at("old.sqlite")).expect("a store"));
    for version in [1, 99] {
        rusqlite::Connection::open(at("old.sqlite"))
            .and_then(|old| old.pragma_update(None, "user_version", version))
            .expect("another version");
        let said = format!("tables are version {version}, this one reads 2");
        assert!(sentence(base(&at("old.sqlite"))).contains(&said), "{said}");
    }
    assert!(
        sentence(base(Path::new("/proc/nowhere/state.sqlite")))
            .contains("can be written with --state-dir"),
        "read-only"
    );
}

#[test]
fn a_corrupt_record_is_an_error_and_not_a_panic() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("state.sqlite");
    let store = SqliteStore::open(&path, Arc::new(SystemClock)).expect("a store");
    assert!(is_go(&WorkerClient::new(
        &store,
        "a.example",
        "2/HOUR",
        None
    )));
    let corrupt = "UPDATE sites SET head = x'ffffffffffffffffffff', head_no = head_no + 1";
    rusqlite::Connection::open(&path)
        .and_then(|connection| connection.execute(corrupt, []))
        .expect("corrupted");
    let said = error_of_view(&store, "a.example");
    assert!(
        said.contains("corrupt") && said.contains("move the file away"),
        "{said}"
    );
}
