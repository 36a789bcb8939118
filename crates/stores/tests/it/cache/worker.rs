//! A process of its own that uses a cache: this test program, started again.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use docstokg_policy::time::{Clock, micros};
use docstokg_stores::cache::{CacheLimits, Claim, Holder, StoreOutcome};
use docstokg_stores::clock::SystemClock;

use super::{CacheStore, ROOMY, body, key, new, newest, open, open_at, put, wait};
use crate::clock::ManualClock;
use crate::worker::PATIENCE;

/// How many keys churning workers share.
pub(crate) const KEYS: u32 = 48;
/// The cap of churning workers: they evict all the time.
pub(crate) const CHURN: CacheLimits = CacheLimits {
    max_body_bytes: 1 << 20,
    ..CacheLimits::of(3 << 20)
};
/// How long the lease of a worker lasts.
pub(crate) const LEASE: Duration = Duration::from_secs(10);

/// The length of the body with a seed: small, in a file, and streamed.
pub(crate) fn length_of(seed: u64) -> usize {
    [300, 16_000, 17_000, 70_000, 300_000][usize::try_from(seed % 5).unwrap_or(0)]
        + usize::try_from(seed % 97).unwrap_or(0)
}

/// A worker that is running.
pub(crate) struct CacheWorker {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl CacheWorker {
    pub(crate) fn start(what: &str, directory: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args([
                "as_a_cache_worker",
                "--exact",
                "--ignored",
                "--nocapture",
                "--quiet",
            ])
            .env("WORKER_DOES", what)
            .env("WORKER_LOCATION", directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a worker");
        let lines = BufReader::new(child.stdout.take().expect("its output"));
        Self { child, lines }
    }

    /// Waits until the worker prints a word.
    pub(crate) fn hear(&mut self, word: &str) {
        let mut line = String::new();
        while self.lines.read_line(&mut line).expect("its output") > 0 {
            if line.contains(word) {
                return;
            }
            line.clear();
        }
        panic!("the worker ended before it said {word}");
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("a living worker");
        self.child.wait().expect("its end");
    }
}

impl Drop for CacheWorker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{word}").and_then(|()| out.flush());
}

/// Does a worker's work, as its environment says.
pub(crate) fn work() {
    let variable = |name: &str| std::env::var(name).expect("started by another test");
    let directory = variable("WORKER_LOCATION");
    let directory = Path::new(&directory);
    match variable("WORKER_DOES").as_str() {
        "churn" => churn(&open(directory, CHURN)),
        // The clock stands still: only the counter of the key can end what memory has.
        "watch" => {
            let clock = ManualClock::at_wall(1_000_000, 1_700_000_000_000_000);
            watch(&open_at(directory, ROOMY, clock.shared()));
        }
        "lead" => {
            let store = open(directory, ROOMY);
            let until = SystemClock.boot().plus_micros(micros(LEASE));
            let claim = wait(store.claim(&key(1), Holder::unique(), until));
            assert_eq!(claim, Claim::Leader);
            say("holding");
            hold_forever();
        }
        "fill the disk" => fill_the_disk(directory),
        "fork" => fork(&open(directory, ROOMY)),
        other => panic!("a worker cannot {other}"),
    }
}

#[expect(clippy::disallowed_methods, reason = "a worker runs in real time")]
fn hold_forever() {
    loop {
        std::thread::sleep(PATIENCE);
    }
}

/// Stores, updates and removes without end: a kill hits it in the middle of one.
fn churn(store: &CacheStore) {
    say("holding");
    let start = u64::from(std::process::id()) << 32;
    for seed in start.. {
        let of = u32::try_from(seed % u64::from(KEYS)).unwrap_or(0);
        let metadata = seed.to_le_bytes();
        let mut writer = store.begin_put(new(store, of, 0, &metadata));
        wait(async {
            for chunk in body(seed, length_of(seed)).chunks(60_000) {
                writer.write(chunk).await;
            }
            let stored = writer.commit().await;
            assert!(
                matches!(stored, StoreOutcome::Yes | StoreOutcome::Invalidated),
                "{stored:?}"
            );
        });
        if seed % 50 == 0 {
            wait(store.invalidate(&key(of))).expect("an answer");
        }
    }
}

/// Serves a key from memory until another process invalidates it.
fn watch(store: &CacheStore) {
    assert!(newest(store, 1).is_some());
    assert!(store.look_up(&key(1)).ready().is_ok(), "in memory");
    say("holding");
    while store.look_up(&key(1)).ready().is_ok() {
        std::hint::spin_loop();
    }
    // The counter moves when the invalidation begins, and again when the row is gone.
    while newest(store, 1).is_some() {}
    say("gone");
}

/// Stores more than the system lets this process write.
#[expect(unsafe_code, reason = "limits of the process have no safe interface")]
fn fill_the_disk(directory: &Path) {
    let heard = super::Heard::default();
    let store = heard.open(directory);
    assert_eq!(put(&store, 1, 0, &body(1, 20_000)), StoreOutcome::Yes);
    let limit = libc::rlimit {
        rlim_cur: 400_000,
        rlim_max: 400_000,
    };
    // SAFETY: ignores a signal, and passes a limit that lives for the call.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
    }
    assert_eq!(
        put(&store, 2, 0, &body(2, 500_000)),
        StoreOutcome::Failed,
        "a file"
    );
    let mut failed = 0;
    for number in 10..200 {
        failed += u32::from(put(&store, number, 0, &body(3, 10_000)) == StoreOutcome::Failed);
    }
    assert!(failed > 0, "the index");
    assert!(newest(&store, 1).is_none_or(|found| found == body(1, 20_000)));
    assert!(newest(&store, 2).is_none());
    let kinds = heard.all().len();
    assert!((1..=3).contains(&kinds), "{:?}", heard.all());
    say("complete");
}

/// Uses the cache, forks, and uses it again on both sides.
#[expect(unsafe_code, reason = "a fork has no safe interface")]
fn fork(store: &CacheStore) {
    put(store, 1, 0, &body(1, 400_000));
    let found = wait(store.look_up(&key(1)));
    // SAFETY: the child uses the store, which is what is tested, and leaves without running
    // anything else.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "a child");
    let mine = if child == 0 { 1_000 } else { 2_000 };
    for number in mine..mine + 50 {
        assert_eq!(
            put(store, number, 0, &body(u64::from(number), 20_000)),
            StoreOutcome::Yes
        );
        assert_eq!(
            newest(store, number),
            Some(body(u64::from(number), 20_000).into())
        );
    }
    assert!(
        super::read(&found[0]) == body(1, 400_000),
        "opened before the fork"
    );
    if child == 0 {
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child ended well");
    for number in 1_000..1_050 {
        assert_eq!(
            newest(store, number),
            Some(body(u64::from(number), 20_000).into())
        );
    }
    say("complete");
}
