//! Files that are damaged, missing, or not ours: a miss and one warning, never a wrong body.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use docstokg_stores::cache::{CacheStore, CacheTrouble, StoreOutcome};
use rusqlite::Connection;

use super::{Heard, ROOMY, body, files, key, newest, open, put, wait};

/// The only body file of a cache.
fn only_body(directory: &Path) -> PathBuf {
    let found = files(&directory.join("v1/bodies"));
    assert_eq!(found.len(), 1);
    found[0].clone()
}

fn flip(path: &Path, offset: usize) {
    let mut bytes = fs::read(path).expect("a file");
    bytes[offset] ^= 1;
    fs::write(path, bytes).expect("a file");
}

fn sql(directory: &Path, statement: &str) {
    Connection::open(directory.join("v1/index.sqlite"))
        .and_then(|connection| connection.execute(statement, []))
        .expect("changed");
}

/// Asserts that there was one warning, of this kind.
fn one_warning(heard: &Heard, trouble: CacheTrouble, what: &str) {
    let all = heard.all();
    assert_eq!(all.len(), 1, "{what}: {all:?}");
    assert_eq!(all[0].trouble, trouble, "{what}: {all:?}");
    assert!(
        !all[0].text.contains("5a5a"),
        "{what}: no key in {}",
        all[0].text
    );
}

#[test]
fn a_damaged_body_is_a_miss_and_is_dropped() {
    type Harm = fn(&Path);
    let harms: [(&str, usize, Harm); 8] = [
        ("a flipped bit", 60_000, |at| flip(&only_body(at), 59_999)),
        ("a short file", 60_000, |at| {
            let file = fs::File::options().write(true).open(only_body(at));
            file.and_then(|file| file.set_len(59_999)).expect("cut");
        }),
        ("a long file", 900_000, |at| {
            let file = fs::File::options().write(true).open(only_body(at));
            file.and_then(|file| file.set_len(900_001)).expect("longer");
        }),
        ("an empty large file", 900_000, |at| {
            fs::write(only_body(at), b"").expect("emptied");
        }),
        ("a missing file", 60_000, |at| {
            fs::remove_file(only_body(at)).expect("removed");
        }),
        ("a link", 60_000, |at| {
            let (path, copy) = (only_body(at), at.join("copy"));
            fs::rename(&path, &copy).expect("moved");
            symlink(copy, path).expect("a link");
        }),
        ("a body in the row", 500, |at| {
            sql(at, "UPDATE entries SET body = zeroblob(500)");
        }),
        ("metadata", 500, |at| {
            sql(at, "UPDATE entries SET metadata = x'00'");
        }),
    ];
    for (what, length, harm) in harms {
        let directory = tempfile::tempdir().expect("a directory");
        let heard = Heard::default();
        let store = heard.open(directory.path());
        assert_eq!(put(&store, 1, 0, &body(1, length)), StoreOutcome::Yes);
        harm(directory.path());
        assert!(newest(&store, 1).is_none(), "{what}");
        assert!(newest(&store, 1).is_none(), "{what}");
        // The removal was queued before this question.
        assert_eq!(wait(store.stats()).expect("stats").entries, 0, "{what}");
        one_warning(&heard, CacheTrouble::EntryDamaged, what);
        assert_eq!(put(&store, 1, 0, b"anew"), StoreOutcome::Yes, "{what}");
        assert_eq!(newest(&store, 1).as_deref(), Some(&b"anew"[..]), "{what}");
    }
}

#[test]
fn a_damaged_large_body_never_reaches_its_end() {
    for offset in [0, 400_000, 899_999] {
        let directory = tempfile::tempdir().expect("a directory");
        let heard = Heard::default();
        let store = heard.open(directory.path());
        put(&store, 1, 0, &body(1, 900_000));
        flip(&only_body(directory.path()), offset);
        let found = wait(store.look_up(&key(1)));
        let (mut reader, mut received, mut failed) = (found[0].body(), 0, false);
        while let Some(chunk) = wait(reader.next()) {
            match chunk {
                Ok(chunk) => received += chunk.len(),
                Err(error) => {
                    failed = true;
                    assert!(
                        error.to_string().contains("https://h1.example/1"),
                        "{error}"
                    );
                }
            }
        }
        assert!(failed && received < 900_000, "{received} bytes");
        assert!(newest(&store, 1).is_none(), "it is dropped");
        one_warning(&heard, CacheTrouble::EntryDamaged, "a large body");
    }
}

#[test]
fn verify_removes_the_damaged_and_says_which() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), ROOMY);
    for number in 0..40 {
        let length = if number % 2 == 0 { 700 } else { 70_000 };
        put(&store, number, 0, &body(u64::from(number), length));
    }
    sql(
        directory.path(),
        "UPDATE entries SET body = x'00' WHERE url LIKE '%/4'",
    );
    sql(
        directory.path(),
        "UPDATE entries SET host = 'other.example' WHERE url LIKE '%/6'",
    );
    let bodies = files(&directory.path().join("v1/bodies"));
    flip(&bodies[3], 30_000);
    fs::remove_file(&bodies[5]).expect("removed");
    let verified = wait(store.verify()).expect("an answer");
    assert_eq!(
        (verified.entries, verified.damaged),
        (40, 4),
        "{verified:?}"
    );
    assert_eq!(verified.list.len(), 4);
    let urls: Vec<&str> = verified
        .list
        .iter()
        .map(|found| found.url.as_str())
        .collect();
    assert!(urls.contains(&"https://h1.example/4") && urls.contains(&"https://h0.example/6"));
    let again = wait(store.verify()).expect("an answer");
    assert_eq!((again.entries, again.damaged), (36, 0));
    let stats = wait(store.stats()).expect("stats");
    assert_eq!(stats.entries, 36);
}

/// Stores forty responses, closes the cache, damages its index, and uses it again.
fn with_a_damaged_index(what: &str, harm: impl Fn(&Path)) {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), ROOMY);
    for number in 0..40 {
        put(
            &store,
            number,
            0,
            &body(u64::from(number), 700 * (number as usize + 1)),
        );
    }
    drop(store);
    harm(&directory.path().join("v1/index.sqlite"));
    let heard = Heard::default();
    let store = heard.open(directory.path());
    for turn in 0..2 {
        for number in 0..40 {
            if let Some(found) = newest(&store, number) {
                let expected = body(u64::from(number), 700 * (number as usize + 1));
                assert!(
                    found == expected,
                    "{what}: the body of {number} in turn {turn}"
                );
            }
        }
    }
    let _ = wait(store.verify());
    for number in 0..40 {
        assert_eq!(
            put(&store, number, 0, b"anew"),
            StoreOutcome::Yes,
            "{what}: {:?}",
            heard.all()
        );
        assert_eq!(
            newest(&store, number).as_deref(),
            Some(&b"anew"[..]),
            "{what}"
        );
    }
    let all = heard.all();
    let replaced = all
        .iter()
        .filter(|one| one.trouble == CacheTrouble::IndexReplaced);
    assert!(replaced.count() <= 1 && all.len() <= 3, "{what}: {all:?}");
    assert_eq!(
        wait(store.verify()).expect("an answer").damaged,
        0,
        "{what}"
    );
}

#[test]
fn a_damaged_index_is_set_aside_and_started_anew() {
    with_a_damaged_index("garbage", |index| {
        fs::write(index, vec![7; 50_000]).expect("written");
    });
    with_a_damaged_index("empty", |index| fs::write(index, b"").expect("written"));
    with_a_damaged_index("a link", |index| {
        let target = index.with_extension("target");
        fs::rename(index, &target).expect("moved");
        symlink(target, index).expect("a link");
        fs::remove_file(index).expect("removed");
    });
    with_a_damaged_index("another version", |index| {
        let connection = Connection::open(index).expect("a database");
        connection
            .pragma_update(None, "user_version", 99)
            .expect("set");
    });
    with_a_damaged_index("no tables", |index| {
        let connection = Connection::open(index).expect("a database");
        connection
            .execute_batch("DROP TABLE entries")
            .expect("dropped");
    });
    let length = |index: &Path| fs::metadata(index).expect("the index").len();
    for part in 1..8 {
        with_a_damaged_index(&format!("cut to {part} eighths"), |index| {
            let file = fs::File::options()
                .write(true)
                .open(index)
                .expect("the index");
            file.set_len(length(index) * part / 8).expect("cut");
        });
    }
    for page in 0..40 {
        with_a_damaged_index(&format!("page {page} overwritten"), |index| {
            let mut bytes = fs::read(index).expect("the index");
            let from = 4_096 * page % bytes.len();
            let to = (from + 4_096).min(bytes.len());
            for (at, byte) in bytes[from..to].iter_mut().enumerate() {
                *byte = u8::try_from((at * 31 + page) % 251).unwrap_or(0);
            }
            fs::write(index, bytes).expect("written");
        });
    }
}

#[test]
fn an_index_that_is_damaged_or_removed_while_it_is_used_is_replaced() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 4] = [
        ("all removed", |index| {
            fs::remove_dir_all(index.parent().expect("a directory")).expect("removed");
        }),
        ("garbage", |index| {
            fs::write(index, vec![9; 200_000]).expect("written");
        }),
        ("removed", |index| fs::remove_file(index).expect("removed")),
        ("cut", |index| {
            let file = fs::File::options()
                .write(true)
                .open(index)
                .expect("the index");
            file.set_len(100).expect("cut");
        }),
    ];
    for (what, harm) in harms {
        let directory = tempfile::tempdir().expect("a directory");
        let heard = Heard::default();
        let store = heard.open(directory.path());
        for number in 0..20 {
            put(&store, number, 0, &body(u64::from(number), 20_000));
        }
        let index = directory.path().join("v1/index.sqlite");
        // The log has what was just written; a checkpoint moves it to the file that is harmed.
        sql(directory.path(), "UPDATE uses SET used_at = used_at");
        let connection = Connection::open(&index).expect("the index");
        connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .expect("a checkpoint");
        drop(connection);
        harm(&index);
        for number in 0..40 {
            if let Some(found) = newest(&store, number) {
                assert!(found == body(u64::from(number), 20_000), "{what}");
            }
            let _ = put(&store, number, 0, &body(u64::from(number), 20_000));
        }
        for number in 0..40 {
            assert_eq!(
                put(&store, number, 0, b"anew"),
                StoreOutcome::Yes,
                "{what}: {:?}",
                heard.all()
            );
            assert_eq!(
                newest(&store, number).as_deref(),
                Some(&b"anew"[..]),
                "{what}"
            );
        }
        // A user who removes the cache needs no warning.
        let expected = usize::from(what != "removed" && what != "all removed")..=3;
        assert!(
            expected.contains(&heard.all().len()),
            "{what}: {:?}",
            heard.all()
        );
    }
}

#[test]
fn a_directory_that_cannot_be_used_is_off_with_one_warning() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name);
    fs::write(at("file"), b"not a directory").expect("a file");
    fs::create_dir_all(at("elsewhere")).expect("a directory");
    for (place, name) in [
        ("linked", "v1"),
        ("inner", "v1/bodies"),
        ("lock", "v1/lock"),
    ] {
        let link = at(place).join(name);
        fs::create_dir_all(link.parent().expect("a parent")).expect("a directory");
        symlink(at("elsewhere"), link).expect("a link");
    }
    fs::create_dir_all(at("index/v1")).expect("a directory");
    fs::write(at("target"), b"").expect("a file");
    symlink(at("target"), at("index/v1/index.sqlite")).expect("a link");
    let unwritable = PathBuf::from("/proc/nowhere/cache");
    let places = [
        at("file"),
        at("linked"),
        at("inner"),
        at("lock"),
        at("index"),
        unwritable,
    ];
    for place in places {
        let heard = Heard::default();
        let store = heard.open(&place);
        assert_eq!(put(&store, 1, 0, b"body"), StoreOutcome::Failed);
        assert!(newest(&store, 1).is_none());
        assert!(wait(store.verify()).is_err() && wait(store.stats()).is_err());
        wait(store.invalidate(&key(1))).expect("nothing to invalidate");
        one_warning(&heard, CacheTrouble::Unusable, &place.display().to_string());
        assert!(
            heard.all()[0].text.contains("go on without"),
            "{:?}",
            heard.all()
        );
        let clock = std::sync::Arc::new(docstokg_stores::clock::SystemClock);
        assert!(CacheStore::disk(&place, ROOMY, clock, None).is_err());
    }
    assert_eq!(
        fs::read_dir(at("elsewhere")).expect("a directory").count(),
        0
    );
    assert_eq!(fs::read(at("target")).expect("a file"), b"");
}

#[test]
fn directories_of_other_versions_are_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    for version in ["v0", "v2"] {
        fs::create_dir(directory.path().join(version)).expect("a directory");
        fs::write(directory.path().join(version).join("index"), b"other").expect("a file");
    }
    let heard = Heard::default();
    let store = heard.open(directory.path());
    assert_eq!(put(&store, 1, 0, b"body"), StoreOutcome::Yes);
    assert!(newest(&store, 1).is_some());
    wait(store.purge(None)).expect("a purge");
    for version in ["v0", "v2"] {
        let kept = fs::read(directory.path().join(version).join("index"));
        assert_eq!(kept.expect("a file"), b"other");
    }
    assert!(heard.all().is_empty());
}
