//! What hits and puts of the cache cost; a hit from disk as a ratio to a bare look-up, open and
//! read measured in the same run. Exits 1 when a target is missed.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark reports to its caller"
)]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::hint::black_box;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

use bytes::Bytes;
use docstokg_stores::cache::{
    CacheKey, CacheLimits, CacheStore, NewEntry, StoreOutcome, VariantHash,
};
use docstokg_stores::clock::SystemClock;
use rusqlite::Connection;

/// How many keys a round goes through.
const KEYS: u32 = 256;
/// How many rounds there are; medians are reported.
const ROUNDS: usize = 21;

fn main() {
    let directory = tempfile::tempdir().expect("a directory");
    let limits = CacheLimits::of(1 << 30);
    let memory = CacheStore::memory(limits, Arc::new(SystemClock));
    let disk = open(&directory.path().join("warm"), limits);
    // Without a memory tier every hit comes from the disk.
    let cold = CacheLimits {
        memory_bytes: 0,
        ..limits
    };
    let cold = open(&directory.path().join("cold"), cold);
    let mut missed = 0;
    for (store, what) in [(&memory, "memory"), (&disk, "disk, warm in memory")] {
        fill(store, 1_024);
        let each = median((0..ROUNDS).map(|_| hits_at_once(store)));
        missed += u32::from(each > 1_000.0);
        let word = if each > 1_000.0 { "MISSED" } else { "ok    " };
        println!("{word} hit of 1 KiB, {what}: {each:.0} ns (at most 1000)");
    }
    missed += compare(&cold, &directory.path().join("bare"));
    for length in [1_024, 65_536] {
        let each = median((0..ROUNDS).map(|_| fill(&disk, length)));
        let kib = length / 1_024;
        println!("       put of {kib} KiB on disk: {:.1} us", each / 1_000.0);
    }
    std::process::exit(i32::from(missed > 0));
}

fn open(directory: &Path, limits: CacheLimits) -> CacheStore {
    CacheStore::disk(directory, limits, Arc::new(SystemClock), None).expect("a cache")
}

/// Compares a hit of 64 KiB from disk with what it costs at least.
fn compare(store: &CacheStore, directory: &Path) -> u32 {
    fill(store, 65_536);
    let by_hand = bare_files(directory);
    let mut pairs: Vec<(f64, f64)> = (0..ROUNDS)
        .map(|_| (bare_hits(&by_hand, directory), hits(store)))
        .collect();
    pairs.sort_by(|one, other| (one.1 / one.0).total_cmp(&(other.1 / other.0)));
    let (base, each) = pairs[ROUNDS / 2];
    let ratio = each / base;
    let word = if ratio > 2.0 { "MISSED" } else { "ok    " };
    println!(
        "{word} hit of 64 KiB from disk: {ratio:.2} x a bare look-up, open and read (at most 2); \
         {:.1} us against {:.1} us",
        each / 1_000.0,
        base / 1_000.0
    );
    println!(
        "       of which a round trip to a thread and back: {:.1} us",
        median((0..ROUNDS).map(|_| round_trips())) / 1_000.0
    );
    u32::from(ratio > 2.0)
}

/// Asks a thread for nothing: what any answer costs that does not block its caller. It depends on
/// the machine and on what else runs there.
fn round_trips() -> f64 {
    let (jobs, queue) = std::sync::mpsc::channel::<tokio::sync::oneshot::Sender<()>>();
    let thread = std::thread::spawn(move || {
        while let Ok(job) = queue.recv() {
            let _ = job.send(());
        }
    });
    let each = time(|_| {
        let (sender, answer) = tokio::sync::oneshot::channel();
        jobs.send(sender).expect("a thread");
        wait(answer).expect("an answer");
    });
    drop(jobs);
    thread.join().expect("its end");
    each
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the nanoseconds that each key takes.
fn time(mut each: impl FnMut(u32)) -> f64 {
    let start = Instant::now();
    for number in 0..KEYS {
        each(number);
    }
    start.elapsed().as_nanos() as f64 / f64::from(KEYS)
}

fn key(number: u32) -> CacheKey {
    let mut hash = [7; 32];
    hash[..4].copy_from_slice(&number.wrapping_mul(0x9e37_79b9).to_le_bytes());
    CacheKey::new(hash)
}

/// Stores all keys.
fn fill(store: &CacheStore, length: usize) -> f64 {
    let body = vec![b'x'; length];
    time(|number| {
        let mut writer = store.begin_put(NewEntry {
            key: key(number),
            variant: VariantHash::new([0; 32]),
            metadata: Bytes::from_static(&[b'm'; 600]),
            url: format!("https://api.example.org/works/{number}"),
            host: "api.example.org".to_owned(),
            since: store.stamp(&key(number)),
        });
        let stored = wait(async {
            writer.write(&body).await;
            writer.commit().await
        });
        assert_eq!(stored, StoreOutcome::Yes);
    })
}

/// Looks all keys up in memory, many times.
fn hits_at_once(store: &CacheStore) -> f64 {
    time(|number| {
        let _ = wait(store.look_up(&key(number)));
    });
    let start = Instant::now();
    for _ in 0..20 {
        for number in 0..KEYS {
            let Ok(found) = store.look_up(&key(number)).ready() else {
                panic!("in memory")
            };
            black_box(found[0].body_in_memory());
        }
    }
    start.elapsed().as_nanos() as f64 / f64::from(20 * KEYS)
}

/// Looks all keys up on disk and reads their bodies.
fn hits(store: &CacheStore) -> f64 {
    time(|number| {
        let found = wait(store.look_up(&key(number)));
        let body = wait(found[0].body().read_to_end()).expect("a body");
        assert_eq!(body.len(), 65_536);
        black_box(body);
    })
}

/// Makes an index and files by hand.
fn bare_files(directory: &Path) -> Connection {
    std::fs::create_dir(directory).expect("a directory");
    let index = Connection::open(directory.join("index.sqlite")).expect("an index");
    index
        .execute_batch(
            "PRAGMA journal_mode = WAL; CREATE TABLE entries \
             (id INTEGER PRIMARY KEY, key BLOB UNIQUE, file TEXT, metadata BLOB)",
        )
        .expect("a table");
    for number in 0..KEYS {
        let name = format!("{number:032x}");
        std::fs::write(directory.join(&name), vec![b'x'; 65_536]).expect("a file");
        index
            .execute(
                "INSERT INTO entries (key, file, metadata) VALUES (?1, ?2, zeroblob(600))",
                (key(number).as_bytes(), &name),
            )
            .expect("a row");
    }
    index
}

/// Looks all keys up by hand, opens and reads the files.
fn bare_hits(index: &Connection, directory: &Path) -> f64 {
    time(|number| {
        let mut found = index
            .prepare_cached("SELECT file, metadata FROM entries WHERE key = ?1")
            .expect("a statement");
        let (file, metadata): (String, Vec<u8>) = found
            .query_row([key(number).as_bytes()], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .expect("a row");
        let mut body = Vec::with_capacity(65_536);
        std::fs::File::open(directory.join(file))
            .and_then(|file| file.take(65_536).read_to_end(&mut body))
            .expect("a file");
        assert_eq!(body.len(), 65_536);
        black_box((body, metadata));
    })
}

struct BenchUnparker(Thread);

impl Wake for BenchUnparker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn wait<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(BenchUnparker(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::park();
    }
}
