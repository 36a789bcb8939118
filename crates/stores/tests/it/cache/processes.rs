//! Several processes on one directory, some of which are killed.

use std::path::Path;
use std::time::{Duration, Instant};

use docstokg_policy::time::{Clock, micros};
use docstokg_stores::cache::{CacheStore, Claim, Holder};
use docstokg_stores::clock::SystemClock;

use super::worker::{CHURN, CacheWorker, KEYS, LEASE, length_of};
use super::{ROOMY, body, files, key, newest, open, open_at, put, read, wait};
use crate::clock::ManualClock;
use crate::worker::PATIENCE;

/// Reads every key that workers churn, and checks each body against the seed in its metadata.
/// Returns how many were there.
fn check(store: &CacheStore, when: &str) -> usize {
    let mut served = 0;
    for number in 0..KEYS {
        for entry in wait(store.look_up(&key(number))).iter() {
            let seed = entry.metadata()[..].try_into().map(u64::from_le_bytes);
            let seed = seed.expect("the metadata of a worker");
            assert_eq!(seed % u64::from(KEYS), u64::from(number), "{when}");
            // A body that is replaced or evicted meanwhile is open already.
            assert!(
                read(entry) == body(seed, length_of(seed)),
                "{when}: key {number}"
            );
            served += 1;
        }
    }
    served
}

/// Returns how many rows were ever inserted.
fn puts(directory: &Path) -> u64 {
    rusqlite::Connection::open(directory.join("v1/index.sqlite"))
        .and_then(|index| {
            index.query_row("SELECT seq FROM sqlite_sequence", [], |row| {
                row.get::<_, i64>(0)
            })
        })
        .map_or(0, i64::unsigned_abs)
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "processes are killed in real time"
)]
fn killed_processes_leave_no_wrong_body_and_no_files_for_long() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), CHURN);
    let mut workers: Vec<CacheWorker> = (0..2)
        .map(|_| CacheWorker::start("churn", directory.path()))
        .collect();
    let (mut served, mut round) = (0, 0);
    // Thousands of puts, and a kill in the middle of one every few milliseconds.
    while round < 24 || puts(directory.path()) < 3_000 {
        workers[0].hear("holding");
        std::thread::sleep(Duration::from_micros(20_000 + 3_777 * (round % 16)));
        workers[0].kill();
        workers.remove(0);
        served += check(&store, &format!("after kill {round}"));
        let stats = wait(store.stats()).expect("stats");
        assert!(
            stats.bytes <= CHURN.max_bytes + CHURN.max_body_bytes,
            "{stats:?}"
        );
        workers.push(CacheWorker::start("churn", directory.path()));
        round += 1;
    }
    drop(workers);
    assert!(served > 500, "{served} bodies were served");
    drop(store);
    let later = SystemClock.wall().as_micros() + 7_200 * 1_000_000;
    let clock = ManualClock::at_wall(SystemClock.boot().as_micros(), later);
    let store = open_at(directory.path(), CHURN, clock.shared());
    let verified = wait(store.verify()).expect("an answer");
    assert_eq!(verified.damaged, 0, "{verified:?}");
    assert!(!verified.index_replaced);
    drop(store);
    let index = rusqlite::Connection::open(directory.path().join("v1/index.sqlite"));
    let in_files: i64 = index
        .expect("the index")
        .query_row("SELECT count(file) FROM entries", [], |row| row.get(0))
        .expect("a count");
    let left = files(&directory.path().join("v1/bodies")).len();
    assert_eq!(
        left as u64,
        in_files.unsigned_abs(),
        "no file without a row"
    );
    assert_eq!(files(&directory.path().join("v1/tmp")).len(), 0);
}

#[test]
fn an_invalidation_ends_what_the_memory_of_another_process_has() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), ROOMY);
    for _ in 0..3 {
        put(&store, 1, 0, b"to be invalidated");
        let mut other = CacheWorker::start("watch", directory.path());
        other.hear("holding");
        wait(store.invalidate(&key(1))).expect("invalidated");
        other.hear("gone");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "leases expire in real time")]
fn a_dead_leader_is_followed_when_its_lease_expires() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), ROOMY);
    let mut leader = CacheWorker::start("lead", directory.path());
    leader.hear("holding");
    let mine = Holder::unique();
    let claim = || {
        let until = SystemClock.boot().plus_micros(micros(LEASE));
        wait(store.claim(&key(1), mine, until))
    };
    assert!(matches!(claim(), Claim::Held { .. }));
    leader.kill();
    let start = Instant::now();
    while claim() != Claim::Leader {
        assert!(start.elapsed() < PATIENCE, "a dead lease");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_full_disk_stores_nothing_and_serves_what_is_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut other = CacheWorker::start("fill the disk", directory.path());
    other.hear("complete");
    drop(other);
    let store = open(directory.path(), ROOMY);
    assert_eq!(wait(store.verify()).expect("an answer").damaged, 0);
    assert_eq!(newest(&store, 1), Some(body(1, 20_000).into()));
}

#[test]
fn a_forked_child_uses_the_cache_with_threads_of_its_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut other = CacheWorker::start("fork", directory.path());
    other.hear("complete");
}
