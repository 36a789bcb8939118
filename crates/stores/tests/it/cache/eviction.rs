//! The byte cap, and what is left behind.

use std::path::Path;
use std::time::Duration;

use docstokg_stores::cache::{CacheLimits, ListPosition, StoreOutcome};

use super::{ROOMY, body, files, key, newest, open, open_at, put, wait};
use crate::clock::ManualClock;

const CAP: CacheLimits = CacheLimits::of(4 << 20);

fn bytes_of_files(directory: &Path) -> u64 {
    let length = |path: &std::path::PathBuf| std::fs::metadata(path).map_or(0, |found| found.len());
    files(directory).iter().map(length).sum()
}

#[test]
fn the_cap_holds_after_every_put_and_the_used_entry_stays() {
    let directory = tempfile::tempdir().expect("a directory");
    let clock = ManualClock::at_wall(1_000_000, 1_700_000_000_000_000);
    let store = open_at(directory.path(), CAP, clock.shared());
    put(&store, 0, 0, &body(0, 50_000));
    let mut evictions = 0;
    let mut before = 0;
    for number in 1..400 {
        // What is served from memory is read again a second later, and noted as used every ten.
        clock.advance(2_000_000);
        clock.advance_wall(2_000_000);
        let length = [500, 10_000, 40_000, 200_000][number as usize % 4];
        assert_eq!(put(&store, number, 0, &body(1, length)), StoreOutcome::Yes);
        let stats = wait(store.stats()).expect("stats");
        assert!(
            stats.bytes <= CAP.max_bytes,
            "{} after {number}",
            stats.bytes
        );
        evictions += u32::from(stats.entries <= before);
        before = stats.entries;
        assert!(newest(&store, number).is_some(), "the newest is there");
        assert!(newest(&store, 0).is_some(), "used all the time: {number}");
    }
    // Batches: most puts evict nothing.
    assert!((5..100).contains(&evictions), "{evictions}");
    let listed = wait(store.list(None, ListPosition::default(), 1_000)).expect("a list");
    let is_there = |url: &str| listed.iter().any(|entry| entry.url == url);
    assert!(is_there("https://h0.example/0") && !is_there("https://h1.example/1"));
    drop(store);
    let on_disk = bytes_of_files(&directory.path().join("v1/bodies"));
    assert!(on_disk <= CAP.max_bytes, "{on_disk}");
    let index = std::fs::metadata(directory.path().join("v1/index.sqlite")).expect("the index");
    assert!(index.len() < 2 * CAP.max_bytes, "{}", index.len());
}

#[test]
fn a_smaller_cap_is_reached_by_evicting() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), ROOMY);
    for number in 0..100 {
        put(&store, number, 0, &body(1, 100_000));
    }
    drop(store);
    let store = open(directory.path(), CAP);
    let removed = wait(store.evict()).expect("an eviction");
    let stats = wait(store.stats()).expect("stats");
    assert_eq!(removed.entries + stats.entries, 100);
    assert!(stats.bytes <= CAP.max_bytes && stats.bytes > CAP.max_bytes / 2);
    assert_eq!(
        files(&directory.path().join("v1/bodies")).len() as u64,
        stats.entries
    );
}

#[test]
fn orphans_are_swept_by_age_and_the_rest_stays() {
    let directory = tempfile::tempdir().expect("a directory");
    let now = std::fs::metadata(directory.path())
        .and_then(|found| found.modified())
        .ok()
        .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok())
        .expect("a time");
    let wall = i64::try_from(now.as_micros()).expect("a time");
    let store = open_at(
        directory.path(),
        ROOMY,
        ManualClock::at_wall(0, wall).shared(),
    );
    put(&store, 1, 0, &body(1, 100_000));
    let v1 = directory.path().join("v1");
    let shard = files(&v1.join("bodies"))[0]
        .parent()
        .expect("a shard")
        .to_owned();
    let orphan = shard.join("0123456789abcdef0123456789abcdef");
    let temporary = v1.join("tmp/fedcba9876543210fedcba9876543210");
    for path in [&orphan, &temporary] {
        std::fs::write(path, b"left by a killed process").expect("a file");
    }
    // They may belong to a put that is on its way.
    assert_eq!(wait(store.verify()).expect("an answer").orphans, 0);
    drop(store);
    let later = wall + i64::try_from(Duration::from_secs(7_200).as_micros()).expect("a time");
    let store = open_at(
        directory.path(),
        ROOMY,
        ManualClock::at_wall(0, later).shared(),
    );
    assert_eq!(wait(store.verify()).expect("an answer").orphans, 2);
    assert!(!orphan.exists() && !temporary.exists());
    assert!(newest(&store, 1).is_some());
    assert!(!wait(store.look_up(&key(1))).is_empty());
}

#[test]
fn opening_sweeps_when_no_process_has_for_hours() {
    let directory = tempfile::tempdir().expect("a directory");
    drop(open(directory.path(), ROOMY));
    let temporary = directory.path().join("v1/tmp/left");
    std::fs::write(&temporary, b"left by a killed process").expect("a file");
    drop(open(directory.path(), ROOMY));
    assert!(temporary.exists(), "too young");
    let day = 86_400 * 1_000_000;
    let far = docstokg_policy::time::Clock::wall(&docstokg_stores::clock::SystemClock).as_micros();
    let clock = ManualClock::at_wall(0, far + day);
    // The sweep runs on a thread that ends with the store.
    drop(open_at(directory.path(), ROOMY, clock.shared()));
    assert!(!temporary.exists());
}
