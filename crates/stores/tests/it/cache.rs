//! The store of responses: both kinds against the same contract and the same naive model, real
//! files that are damaged, real processes that are killed.

use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use bytes::Bytes;
use docstokg_policy::time::Clock;
use docstokg_stores::cache::{
    CacheEntry, CacheKey, CacheLimits, CacheStore, CacheWarning, NewEntry, StoreOutcome,
    VariantHash, WarningObserver,
};
use docstokg_stores::clock::SystemClock;
use parking_lot::Mutex;

// What every kind promises.
mod contract;
// Files that are damaged, missing, or not ours.
mod damage;
// The byte cap, and leftovers.
mod eviction;
// Random operations against a map.
mod model;
// Several processes, some of which are killed.
mod processes;
// This program again, as a process that uses a cache.
pub(crate) mod worker;

/// A cap that no test reaches by accident.
pub(crate) const ROOMY: CacheLimits = CacheLimits::of(1 << 30);

struct TestUnparker(Thread);

impl Wake for TestUnparker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread, without a runtime: the store needs none.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(TestUnparker(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::park();
    }
}

pub(crate) fn key(number: u32) -> CacheKey {
    let mut hash = [0x5a; 32];
    hash[..4].copy_from_slice(&number.wrapping_mul(0x9e37_79b9).to_le_bytes());
    hash[4..8].copy_from_slice(&number.to_le_bytes());
    CacheKey::new(hash)
}

pub(crate) fn variant(number: u32) -> VariantHash {
    let mut hash = [0xa5; 32];
    hash[..4].copy_from_slice(&number.to_le_bytes());
    VariantHash::new(hash)
}

/// A body whose every part depends on its seed.
pub(crate) fn body(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

pub(crate) fn host(number: u32) -> String {
    format!("h{}.example", number % 3)
}

/// Describes a response whose request leaves now.
pub(crate) fn new(store: &CacheStore, of: u32, in_variant: u32, metadata: &[u8]) -> NewEntry {
    NewEntry {
        key: key(of),
        variant: variant(in_variant),
        metadata: Bytes::copy_from_slice(metadata),
        url: format!("https://{}/{of}", host(of)),
        host: host(of),
        since: store.stamp(&key(of)),
    }
}

/// Stores a response.
pub(crate) fn put(store: &CacheStore, of: u32, in_variant: u32, body: &[u8]) -> StoreOutcome {
    let mut writer = store.begin_put(new(store, of, in_variant, b"metadata"));
    wait(async {
        for chunk in body.chunks(50_000) {
            writer.write(chunk).await;
        }
        writer.commit().await
    })
}

/// Reads the whole body of an entry.
pub(crate) fn read(entry: &CacheEntry) -> Bytes {
    wait(entry.body().read_to_end()).expect("an undamaged body")
}

/// Reads the body of the newest variant, if there is one.
pub(crate) fn newest(store: &CacheStore, of: u32) -> Option<Bytes> {
    wait(store.look_up(&key(of)))
        .first()
        .map(|entry| read(entry))
}

pub(crate) fn open(directory: &Path, limits: CacheLimits) -> CacheStore {
    open_at(directory, limits, Arc::new(SystemClock))
}

pub(crate) fn open_at(directory: &Path, limits: CacheLimits, clock: Arc<dyn Clock>) -> CacheStore {
    CacheStore::disk(directory, limits, clock, None).expect("a cache")
}

/// Collects warnings.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<CacheWarning>>>);

impl Heard {
    pub(crate) fn observer(&self) -> WarningObserver {
        let heard = Arc::clone(&self.0);
        Arc::new(move |warning: &CacheWarning| heard.lock().push(warning.clone()))
    }

    pub(crate) fn all(&self) -> Vec<CacheWarning> {
        self.0.lock().clone()
    }

    /// Opens a cache whose warnings are collected.
    pub(crate) fn open(&self, directory: &Path) -> CacheStore {
        let observer = Some(self.observer());
        CacheStore::disk_or_off(directory, ROOMY, Arc::new(SystemClock), observer)
    }
}

/// Lists the files below a directory of the cache.
pub(crate) fn files(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(next) = left.pop() {
        for entry in std::fs::read_dir(next).expect("a directory") {
            let entry = entry.expect("an entry");
            if entry.file_type().expect("a type").is_dir() {
                left.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    found
}
