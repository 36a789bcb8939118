//! What every kind of cache promises.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use bytes::Bytes;
use docstokg_policy::time::BootInstant;
use docstokg_stores::cache::{
    CacheLimits, CacheStore, Claim, Holder, ListPosition, MAX_METADATA, MAX_VARIANTS, StoreOutcome,
};

use super::{ROOMY, body, files, key, new, newest, open, open_at, put, read, variant, wait};
use crate::clock::ManualClock;

const MANY_LENGTHS: [usize; 9] = [
    0, 1, 16_384, 16_385, 65_536, 262_144, 262_145, 1_000_000, 5_000_000,
];

/// Runs a test on both kinds.
fn on_both(test: impl Fn(&str, &CacheStore, &ManualClock)) {
    let clock = || ManualClock::at_wall(1_000_000, 1_700_000_000_000_000);
    let at = clock();
    test("memory", &CacheStore::memory(ROOMY, at.shared()), &at);
    let (at, directory) = (clock(), tempfile::tempdir().expect("a directory"));
    test("disk", &open_at(directory.path(), ROOMY, at.shared()), &at);
}

#[test]
fn a_response_of_any_length_is_found_as_it_was_stored() {
    on_both(|kind, store, _| {
        for (number, length) in (0u32..).zip(MANY_LENGTHS) {
            let stored = body(u64::from(number), length);
            assert!(wait(store.look_up(&key(number))).is_empty(), "{kind}");
            assert_eq!(put(store, number, 0, &stored), StoreOutcome::Yes, "{kind}");
            for turn in ["from the index", "again"] {
                let found = wait(store.look_up(&key(number)));
                let [entry] = &*found else {
                    panic!("{kind}: one variant of {length} {turn}")
                };
                assert_eq!(entry.body_length(), length as u64, "{kind}");
                assert_eq!(&entry.metadata()[..], b"metadata", "{kind}");
                assert!(read(entry) == stored, "{kind}: {length} {turn}");
            }
        }
    });
}

#[test]
fn the_beginning_of_a_body_is_skipped_once_the_whole_was_verified() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), ROOMY);
    let stored = body(7, 3_000_000);
    put(&store, 1, 0, &stored);
    let found = wait(store.look_up(&key(1)));
    let mut first = found[0].body();
    assert!(!first.is_verified());
    assert_eq!(first.skip(2_000_000), 0, "nothing is known of it yet");
    assert!(wait(first.read_to_end()).expect("undamaged") == stored);
    let mut second = found[0].body();
    assert!(second.is_verified());
    assert_eq!(second.skip(2_000_000), 2_000_000);
    assert!(wait(second.read_to_end()).expect("undamaged") == stored[2_000_000..]);
    let mut beyond = found[0].body();
    assert_eq!(beyond.skip(5_000_000), 3_000_000);
    assert!(wait(beyond.next()).is_none());
}

#[test]
fn a_large_body_streams_in_bounded_chunks() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), ROOMY);
    let stored = body(7, 3_000_000);
    put(&store, 1, 0, &stored);
    let found = wait(store.look_up(&key(1)));
    assert!(found[0].body_in_memory().is_none());
    let (mut reader, mut got) = (found[0].body(), Vec::new());
    while let Some(chunk) = wait(reader.next()) {
        let chunk = chunk.expect("an undamaged body");
        assert!(chunk.len() <= 256 * 1024);
        got.extend_from_slice(&chunk);
    }
    assert!(got == stored);
    assert!(wait(reader.next()).is_none(), "it stays at its end");
    // An open body outlives its entry.
    let mut reader = found[0].body();
    wait(store.purge(None)).expect("a purge");
    assert!(wait(reader.read_to_end()).expect("still open") == stored);
    assert!(newest(&store, 1).is_none());
}

#[test]
fn nothing_is_visible_or_left_before_the_commit() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), ROOMY);
    let mut writer = store.begin_put(new(&store, 1, 0, b""));
    wait(async {
        for _ in 0..8 {
            writer.write(&body(1, 200_000)).await;
        }
    });
    assert!(newest(&store, 1).is_none());
    drop(writer);
    // What the threads have begun is complete when the store is dropped.
    drop(store);
    assert_eq!(files(&directory.path().join("v1/tmp")).len(), 0);
    assert_eq!(files(&directory.path().join("v1/bodies")).len(), 0);
}

#[test]
fn variants_are_replaced_limited_and_newest_first() {
    on_both(|kind, store, clock| {
        for number in 0..40 {
            clock.advance_wall(1_000);
            assert_eq!(put(store, 1, number, &body(1, 20_000)), StoreOutcome::Yes);
        }
        clock.advance_wall(1_000);
        put(store, 1, 20, b"replaced");
        let found = wait(store.look_up(&key(1)));
        assert_eq!(found.len(), MAX_VARIANTS, "{kind}");
        assert_eq!(*found[0].variant(), variant(20), "{kind}");
        assert_eq!(&read(&found[0])[..], b"replaced", "{kind}");
        assert_eq!(*found[1].variant(), variant(39), "{kind}");
        let oldest = found.iter().map(|entry| entry.stored_at()).min();
        assert_eq!(Some(found[31].stored_at()), oldest, "{kind}");
        assert_eq!(
            *found[31].variant(),
            variant(8),
            "{kind}: the oldest are dropped"
        );
    });
}

#[test]
fn metadata_is_updated_and_decoded_once() {
    on_both(|kind, store, _| {
        put(store, 1, 0, b"body");
        let old = wait(store.look_up(&key(1)));
        assert!(wait(
            store.update_metadata(&old[0], Bytes::from_static(b"after 304"))
        ));
        let found = wait(store.look_up(&key(1)));
        assert_eq!(&found[0].metadata()[..], b"after 304", "{kind}");
        assert_eq!(&read(&found[0])[..], b"body", "{kind}");
        assert_eq!(found[0].stored_at(), old[0].stored_at(), "{kind}");
        let decode = |bytes: &[u8]| Some(bytes.len());
        assert_eq!(found[0].decoded(decode).map(|value| **value), Some(9));
        let again = wait(store.look_up(&key(1)));
        let must_not_run = |_: &[u8]| -> Option<usize> { panic!("{kind}: decoded twice") };
        assert_eq!(again[0].decoded(must_not_run).map(|value| **value), Some(9));
        let long = Bytes::from(vec![0; MAX_METADATA + 1]);
        assert!(!wait(store.update_metadata(&found[0], long)));
        // An entry that was replaced is not updated through its old handle.
        put(store, 1, 0, b"another body");
        assert!(!wait(
            store.update_metadata(&found[0], Bytes::from_static(b"stale"))
        ));
        assert_eq!(&wait(store.look_up(&key(1)))[0].metadata()[..], b"metadata");
        assert!(!wait(store.remove(&found[0])).expect("an answer"), "{kind}");
        let current = wait(store.look_up(&key(1)));
        assert!(
            wait(store.remove(&current[0])).expect("an answer"),
            "{kind}"
        );
        assert!(newest(store, 1).is_none(), "{kind}");
    });
}

#[test]
fn an_invalidation_counts_from_its_call_and_for_requests_on_their_way() {
    on_both(|kind, store, _| {
        put(store, 1, 0, b"one");
        put(store, 2, 0, b"two");
        assert!(newest(store, 1).is_some() && store.look_up(&key(1)).ready().is_ok());
        let before = new(store, 1, 0, b"");
        let invalidated = store.invalidate(&key(1));
        wait(invalidated).expect("invalidated");
        assert!(newest(store, 1).is_none(), "{kind}");
        assert!(newest(store, 2).is_some(), "{kind}");
        let mut writer = store.begin_put(before);
        let stored = wait(async {
            writer.write(&body(1, 100_000)).await;
            writer.commit().await
        });
        assert_eq!(stored, StoreOutcome::Invalidated, "{kind}");
        assert!(newest(store, 1).is_none(), "{kind}");
        assert_eq!(put(store, 1, 0, b"new"), StoreOutcome::Yes, "{kind}");
        let before = new(store, 2, 0, b"");
        wait(store.purge(Some("another.example"))).expect("a purge");
        let stored = wait(store.begin_put(before).commit());
        assert_eq!(
            stored,
            StoreOutcome::Invalidated,
            "{kind}: a purge counts as well"
        );
    });
}

#[test]
fn what_is_too_large_is_not_stored() {
    let limits = CacheLimits {
        max_body_bytes: 100_000,
        ..CacheLimits::of(1 << 20)
    };
    let directory = tempfile::tempdir().expect("a directory");
    let memory = CacheStore::memory(limits, ManualClock::at(0).shared());
    for store in [memory, open(directory.path(), limits)] {
        assert_eq!(put(&store, 1, 0, &body(1, 100_001)), StoreOutcome::TooLarge);
        assert_eq!(put(&store, 1, 0, &body(1, 100_000)), StoreOutcome::Yes);
        let metadata = vec![0; MAX_METADATA + 1];
        let writer = store.begin_put(new(&store, 2, 0, &metadata));
        assert!(!writer.is_open());
        assert_eq!(wait(writer.commit()), StoreOutcome::TooLarge);
    }
}

#[test]
fn hosts_are_purged_and_entries_listed_in_pages() {
    on_both(|kind, store, _| {
        for number in 0..30 {
            put(store, number, 0, &body(1, 1_000 * number as usize));
        }
        let page = wait(store.list(None, ListPosition::default(), 20)).expect("a list");
        let rest = wait(store.list(None, page[19].position, 20)).expect("a list");
        assert_eq!((page.len(), rest.len()), (20, 10), "{kind}");
        assert_eq!(page[1].url, "https://h1.example/1", "{kind}");
        assert_eq!(rest[9].body_length, 29_000, "{kind}");
        let of_host = wait(store.list(Some("h1.example"), ListPosition::default(), 99));
        assert_eq!(of_host.expect("a list").len(), 10, "{kind}");
        let before = wait(store.stats()).expect("stats");
        let removed = wait(store.purge(Some("h1.example"))).expect("a purge");
        let after = wait(store.stats()).expect("stats");
        assert_eq!((removed.entries, after.entries), (10, 20), "{kind}");
        assert_eq!(before.bytes - removed.bytes, after.bytes, "{kind}");
        assert!(
            newest(store, 1).is_none() && newest(store, 2).is_some(),
            "{kind}"
        );
        assert_eq!(
            wait(store.purge(None)).expect("a purge").entries,
            20,
            "{kind}"
        );
        assert_eq!(wait(store.stats()).expect("stats").bytes, 0, "{kind}");
    });
}

#[test]
fn leases_exclude_expire_and_end() {
    on_both(|kind, store, clock| {
        let (mine, other) = (Holder::unique(), Holder::unique());
        let at = |micros: u64| BootInstant::from_micros(micros);
        let claim = |holder, until| wait(store.claim(&key(1), holder, at(until)));
        assert_eq!(claim(mine, 5_000_000), Claim::Leader, "{kind}");
        let held = Claim::Held {
            until: at(5_000_000),
        };
        assert_eq!(claim(other, 6_000_000), held, "{kind}");
        assert!(wait(store.renew(&key(1), mine, at(8_000_000))), "{kind}");
        assert!(!wait(store.renew(&key(1), other, at(8_000_000))), "{kind}");
        wait(store.release(&key(1), other));
        assert_eq!(
            claim(other, 1),
            Claim::Held {
                until: at(8_000_000)
            },
            "{kind}"
        );
        clock.set(8_000_000);
        assert_eq!(claim(other, 9_000_000), Claim::Leader, "{kind}: it expires");
        assert!(!wait(store.renew(&key(1), mine, at(9_000_000))), "{kind}");
        let changes = store.changes(&key(1));
        wait(store.release(&key(1), other));
        assert_ne!(store.changes(&key(1)), changes, "{kind}: followers notice");
        assert_eq!(claim(mine, 9_000_000), Claim::Leader, "{kind}");
        wait(store.remember_uncacheable(&key(1), at(20_000_000)));
        let uncacheable = Claim::Uncacheable {
            until: at(20_000_000),
        };
        assert_eq!(claim(other, 9_000_000), uncacheable, "{kind}");
        clock.set(20_000_000);
        assert_eq!(claim(other, 21_000_000), Claim::Leader, "{kind}");
    });
}

#[test]
fn files_are_private_and_hold_no_part_of_the_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("cache");
    let store = open(&root, ROOMY);
    put(&store, 1, 0, &body(1, 100_000));
    for path in files(&root) {
        let mode = std::fs::metadata(&path)
            .expect("a file")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
    for path in [
        root.clone(),
        root.join("v1"),
        root.join("v1/bodies"),
        root.join("v1/tmp"),
    ] {
        let mode = std::fs::metadata(&path)
            .expect("a directory")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700, "{}", path.display());
    }
}

#[test]
fn what_is_stored_is_there_after_a_restart_and_in_memory_after_a_look_up() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), ROOMY);
    put(&store, 1, 0, &body(1, 1_000));
    put(&store, 2, 0, &body(2, 100_000));
    drop(store);
    let clock = ManualClock::at_wall(1_000_000, 1_700_000_000_000_000);
    let store = open_at(directory.path(), ROOMY, Arc::clone(&clock).shared());
    for (number, length) in [(1, 1_000), (2, 100_000)] {
        assert!(
            store.look_up(&key(number)).ready().is_err(),
            "not in memory"
        );
        assert_eq!(
            newest(&store, number),
            Some(body(u64::from(number), length).into())
        );
        let Ok(found) = store.look_up(&key(number)).ready() else {
            panic!("in memory")
        };
        assert!(read(&found[0]) == body(u64::from(number), length));
    }
    // After its age, an entry is read again.
    clock.advance(1_000_000);
    assert!(store.look_up(&key(1)).ready().is_err());
}
