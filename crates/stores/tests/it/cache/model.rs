//! Random operations on a cache, and on a map that does the same naively.

use std::collections::HashMap;
use std::path::Path;

use bytes::Bytes;
use docstokg_stores::cache::{CacheLimits, CacheStore, ListPosition, StoreOutcome};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{ROOMY, body, host, key, new, open_at, put, read, variant, wait};
use crate::clock::ManualClock;

#[derive(Clone, Debug)]
enum Operation {
    Put {
        of: u32,
        variant: u32,
        length: usize,
    },
    Abandon {
        of: u32,
        length: usize,
    },
    Update {
        of: u32,
        variant: u32,
    },
    Remove {
        of: u32,
        variant: u32,
    },
    Invalidate {
        of: u32,
    },
    Purge {
        host: u32,
    },
    LookUp {
        of: u32,
    },
    Reopen,
}

fn operation() -> impl Strategy<Value = Operation> {
    let length = prop_oneof![
        Just(0),
        1usize..2_000,
        16_383usize..16_386,
        60_000usize..70_000,
        Just(300_000)
    ];
    let (of, in_variant) = (0u32..5, 0u32..3);
    prop_oneof![
        6 => (of.clone(), in_variant.clone(), length.clone())
            .prop_map(|(of, variant, length)| Operation::Put { of, variant, length }),
        1 => (of.clone(), length).prop_map(|(of, length)| Operation::Abandon { of, length }),
        2 => (of.clone(), in_variant.clone())
            .prop_map(|(of, variant)| Operation::Update { of, variant }),
        1 => (of.clone(), in_variant).prop_map(|(of, variant)| Operation::Remove { of, variant }),
        1 => of.clone().prop_map(|of| Operation::Invalidate { of }),
        1 => (0u32..3).prop_map(|host| Operation::Purge { host }),
        4 => of.prop_map(|of| Operation::LookUp { of }),
        1 => Just(Operation::Reopen),
    ]
}

/// Variants of a key, newest first: number, metadata, body.
type CacheModel = HashMap<u32, Vec<(u32, Vec<u8>, Vec<u8>)>>;

fn compare(store: &CacheStore, model: &CacheModel, of: u32) {
    let found = wait(store.look_up(&key(of)));
    let expected = model.get(&of).map(Vec::as_slice).unwrap_or_default();
    assert_eq!(found.len(), expected.len(), "variants of {of}");
    for (entry, (number, metadata, stored)) in found.iter().zip(expected) {
        assert_eq!(*entry.variant(), variant(*number));
        assert_eq!(&entry.metadata()[..], &metadata[..]);
        assert!(read(entry) == *stored, "the body of {of}");
    }
}

fn apply(store: &CacheStore, model: &mut CacheModel, operation: &Operation, turn: u64) {
    let update = |model: &mut CacheModel, of: u32, number: u32| -> Option<usize> {
        let variants = model.get_mut(&of)?;
        variants.iter().position(|(other, ..)| *other == number)
    };
    match *operation {
        Operation::Put {
            of,
            variant: number,
            length,
        } => {
            let stored = body(turn, length);
            assert_eq!(put(store, of, number, &stored), StoreOutcome::Yes);
            let variants = model.entry(of).or_default();
            variants.retain(|(other, ..)| *other != number);
            variants.insert(0, (number, b"metadata".to_vec(), stored));
        }
        Operation::Abandon { of, length } => {
            let mut writer = store.begin_put(new(store, of, 0, b"abandoned"));
            wait(writer.write(&body(turn, length)));
        }
        Operation::Update {
            of,
            variant: number,
        } => {
            let metadata = format!("updated {turn}").into_bytes();
            let found = wait(store.look_up(&key(of)));
            let entry = found
                .iter()
                .find(|entry| *entry.variant() == variant(number));
            let position = update(model, of, number);
            assert_eq!(entry.is_some(), position.is_some());
            if let (Some(entry), Some(position)) = (entry, position) {
                assert!(wait(store.update_metadata(entry, metadata.clone().into())));
                if let Some(variants) = model.get_mut(&of) {
                    variants[position].1 = metadata;
                }
            }
        }
        Operation::Remove {
            of,
            variant: number,
        } => {
            let found = wait(store.look_up(&key(of)));
            if let Some(entry) = found
                .iter()
                .find(|entry| *entry.variant() == variant(number))
            {
                assert!(wait(store.remove(entry)).expect("an answer"));
            }
            if let Some(variants) = model.get_mut(&of) {
                variants.retain(|(other, ..)| *other != number);
            }
        }
        Operation::Invalidate { of } => {
            wait(store.invalidate(&key(of))).expect("an answer");
            model.remove(&of);
        }
        Operation::Purge { host: number } => {
            let gone = host(number);
            let removed = wait(store.purge(Some(&gone))).expect("an answer");
            let before: usize = model.values().map(Vec::len).sum();
            model.retain(|of, _| host(*of) != gone);
            let after: usize = model.values().map(Vec::len).sum();
            assert_eq!(removed.entries, (before - after) as u64);
        }
        Operation::LookUp { of } => compare(store, model, of),
        Operation::Reopen => {}
    }
}

/// Runs operations on one kind of cache.
fn run(operations: &[Operation], directory: Option<&Path>) {
    let clock = ManualClock::at_wall(1_000_000, 1_700_000_000_000_000);
    let make = || match directory {
        Some(directory) => open_at(directory, ROOMY, clock.shared()),
        None => CacheStore::memory(ROOMY, clock.shared()),
    };
    let (mut store, mut model) = (make(), CacheModel::new());
    for (turn, operation) in (1..).zip(operations) {
        clock.advance(100);
        clock.advance_wall(100);
        if matches!(operation, Operation::Reopen) && directory.is_some() {
            drop(store);
            store = make();
        }
        apply(&store, &mut model, operation, turn);
    }
    for of in 0..5 {
        compare(&store, &model, of);
    }
    let expected: usize = model.values().map(Vec::len).sum();
    assert_eq!(wait(store.stats()).expect("stats").entries, expected as u64);
    let listed = wait(store.list(None, ListPosition::default(), 1_000)).expect("a list");
    assert_eq!(listed.len(), expected);
    let verified = wait(store.verify()).expect("an answer");
    assert_eq!((verified.entries, verified.damaged), (expected as u64, 0));
    let Some(directory) = directory else {
        return;
    };
    // Files are there for larger bodies, and for nothing else.
    drop(store);
    let in_files = |(_, _, body): &&(u32, Vec<u8>, Vec<u8>)| body.len() > 16 * 1024;
    let expected = model.values().flatten().filter(in_files).count();
    assert_eq!(super::files(&directory.join("v1/bodies")).len(), expected);
    assert_eq!(super::files(&directory.join("v1/tmp")).len(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn memory_and_disk_cache_agree_with_a_map(operations in vec(operation(), 1..40)) {
        run(&operations, None);
        let directory = tempfile::tempdir().expect("a directory");
        run(&operations, Some(directory.path()));
    }

    /// Each step looks a key up, or stores it with so many bytes; a list in the order of use does
    /// the same.
    #[test]
    fn memory_drops_the_least_recently_used(
        steps in vec((0u32..12, prop_oneof![Just(None), (0usize..3_000).prop_map(Some)]), 1..200)
    ) {
        let limits = CacheLimits { max_body_bytes: 5_000, ..CacheLimits::of(12_000) };
        let store = CacheStore::memory(limits, ManualClock::at(0).shared());
        let mut order: Vec<(u32, u64)> = Vec::new();
        for (of, length) in steps {
            let known = order.iter().position(|(other, _)| *other == of);
            let Some(length) = length else {
                assert_eq!(wait(store.look_up(&key(of))).is_empty(), known.is_none());
                if let Some(known) = known {
                    let used = order.remove(known);
                    order.push(used);
                }
                continue;
            };
            put(&store, of, 0, &body(1, length));
            if let Some(known) = known {
                order.remove(known);
            }
            let beside = b"metadata".len() + format!("https://{0}/{of}{0}", host(of)).len() + 512;
            order.push((of, (length + beside) as u64));
            while order.iter().map(|(_, size)| size).sum::<u64>() > 12_000 {
                order.remove(0);
            }
            let stats = wait(store.stats()).expect("stats");
            let bytes: u64 = order.iter().map(|(_, size)| size).sum();
            assert_eq!((stats.entries, stats.bytes), (order.len() as u64, bytes));
        }
    }
}

#[test]
fn unused_bytes_are_not_kept() {
    let store = CacheStore::memory(ROOMY, ManualClock::at(0).shared());
    put(&store, 1, 0, &Bytes::from(vec![1; 100]));
    let found = wait(store.look_up(&key(1)));
    assert_eq!(found[0].body_in_memory().map(|body| body.len()), Some(100));
}
