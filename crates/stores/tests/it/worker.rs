//! A process of its own that uses a store: this test program, started again.

use std::io::{BufRead, BufReader, Read, Write};
use std::num::NonZeroU32;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::breaker::{BreakerPolicy, OpenReason};
use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::host::Host;
use docstokg_policy::host_model::learned::{LearnMode, LearnPolicy};
use docstokg_policy::rate::parse_rates;
use docstokg_policy::role::Role;
use docstokg_policy::site::{
    AdmissionDecision, AdmissionRequest, AdmissionResult, AttemptResult, BudgetCost, LanePolicy,
    Patience, Permit,
};
use docstokg_policy::time::BootInstant;
use docstokg_policy::windows::Windows;
use docstokg_stores::clock::SystemClock;
use docstokg_stores::conformance::arrive;
use docstokg_stores::multiprocess::MultiprocessStore;
use docstokg_stores::redis::RedisStore;
use docstokg_stores::sqlite::SqliteStore;
use docstokg_stores::{BudgetKey, SiteHandle, StateStore, StoreError};

// Work that teaches something about the limits of a host.
#[path = "worker/learning.rs"]
mod learning;

#[allow(unused_imports, reason = "the soak test starts no such worker")]
pub(crate) use learning::remaining;

/// How long a slot or the lease of a probe lasts after its holder has ended.
const LEASE: Duration = Duration::from_secs(1);
/// The same for what is looked at before it expires: a busy machine comes to that late.
pub(crate) const LONG_LEASE: Duration = Duration::from_secs(10);

/// Opens the store at a path or DSN: by its scheme or its extension.
pub(crate) fn open(location: &str) -> Arc<dyn StateStore> {
    let clock = Arc::new(SystemClock);
    if location.starts_with("redis://") {
        return Arc::new(RedisStore::open(location, clock).expect("a redis store"));
    }
    match Path::new(location)
        .extension()
        .and_then(|ending| ending.to_str())
    {
        Some("shm") => Arc::new(
            MultiprocessStore::open(Path::new(location), clock).expect("a multiprocess store"),
        ),
        _ => Arc::new(SqliteStore::open(Path::new(location), clock).expect("a sqlite store")),
    }
}

/// A budget on a site, and the question of a request with a cost in it.
pub(crate) struct WorkerClient {
    pub(crate) site: Arc<dyn SiteHandle>,
    pub(crate) costs: Vec<BudgetCost>,
    breaker: BreakerPolicy,
    /// How limits are learned, and the name of the host's quotas, where they count.
    pub(crate) learn: Option<(LearnPolicy, Arc<str>)>,
    /// How long what it holds lasts after its end.
    pub(crate) lease: Duration,
}

impl WorkerClient {
    pub(crate) fn new(store: &dyn StateStore, key: &str, rates: &str, slots: Option<u32>) -> Self {
        let site = store.site(&key.into());
        let budget = site.budget(&BudgetKey::Role(
            Host::parse("a.example").expect("a host"),
            Role::Metadata,
        ));
        let windows = Arc::new(Windows::new(
            parse_rates(rates).expect("rates"),
            Duration::ZERO,
        ));
        let costs = vec![BudgetCost {
            budget,
            weight: 1,
            windows,
            slots: slots.and_then(NonZeroU32::new),
        }];
        Self {
            site,
            costs,
            breaker: BreakerPolicy {
                jitter: Duration::ZERO,
                ..BreakerPolicy::default()
            },
            learn: None,
            lease: LEASE,
        }
    }

    /// Makes a client that learns limits below the given ones, and obeys what the host states.
    pub(crate) fn learning(store: &dyn StateStore, key: &str, rates: &str) -> Self {
        let policy = LearnPolicy {
            mode: LearnMode::Tighten,
            slowest: Duration::from_secs(60),
        };
        Self {
            learn: Some((policy, "metadata".into())),
            ..Self::new(store, key, rates, None)
        }
    }

    /// Changes how long what it holds lasts after its end.
    pub(crate) fn with_lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    pub(crate) fn ask(&self, latest: BootInstant) -> AdmissionRequest {
        let policy = LanePolicy {
            lease: self.lease,
            learn: self.learn.as_ref().map(|(policy, _)| *policy),
            ..LanePolicy::new(self.breaker.clone())
        };
        AdmissionRequest {
            latest,
            quota_lane: self.learn.as_ref().map(|(_, lane)| Arc::clone(lane)),
            patience: if latest == BootInstant::ZERO {
                Patience::Refuse
            } else {
                Patience::Wait
            },
            ..AdmissionRequest::at_once(&self.costs, policy)
        }
    }

    pub(crate) fn enter(&self) -> AdmissionDecision {
        arrive(self.site.enter(&self.ask(BootInstant::ZERO))).entry
    }

    /// Asks a store that may be lost.
    pub(crate) async fn try_enter(&self) -> Result<AdmissionDecision, StoreError> {
        Ok(self.site.enter(&self.ask(BootInstant::ZERO)).await?.entry)
    }

    pub(crate) fn confirm(&self, id: u64) -> AdmissionDecision {
        arrive(self.site.confirm(&self.ask(BootInstant::ZERO), id)).entry
    }

    fn wait(&self) -> AdmissionResult {
        arrive(self.site.enter(&self.ask(BootInstant::FAR)))
    }

    pub(crate) fn settle(&self, permit: &Permit, outcome: AttemptMeaning) {
        let report = AttemptResult {
            outcome,
            retry_after: None,
            sent: permit.at,
            wants_retry: false,
            maybe_refused: false,
        };
        arrive(
            self.site
                .settle(&self.ask(BootInstant::ZERO), permit, &report),
        );
    }
}

/// How long a test waits for anything before it fails, and how long a worker lives at most: only what
/// hangs takes so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A worker that is running.
pub(crate) struct StoreWorker {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl StoreWorker {
    /// Starts a worker that does `what` on a store.
    pub(crate) fn start(what: &str, location: &str, key: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args([
                "as_a_worker",
                "--exact",
                "--ignored",
                "--nocapture",
                "--quiet",
            ])
            .env("WORKER_DOES", what)
            .env("WORKER_LOCATION", location)
            .env("WORKER_KEY", key)
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
            // The test harness writes on the same line.
            if line.contains(word) {
                return;
            }
            line.clear();
        }
        panic!("the worker ended before it said {word}");
    }

    /// Kills the worker between two instructions.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("a living worker");
        self.child.wait().expect("its end");
    }

    /// Waits until the worker was permitted to send so often, and returns when, in microseconds.
    pub(crate) fn hear_permits(&mut self, count: usize) -> Vec<u64> {
        let lines = self.lines.by_ref().lines().map_while(Result::ok);
        let permits: Vec<u64> = lines.filter_map(|line| permit(&line)).take(count).collect();
        assert_eq!(permits.len(), count, "the worker ended early");
        permits
    }

    /// Kills the worker, and returns when else it was permitted to send, in microseconds.
    pub(crate) fn end(mut self) -> Vec<u64> {
        self.kill();
        let lines = self.lines.by_ref().lines().map_while(Result::ok);
        lines.filter_map(|line| permit(&line)).collect()
    }

    /// Waits for the worker to end by itself, and counts the permits that it reports.
    pub(crate) fn permitted(mut self) -> usize {
        let mut permitted = 0;
        for line in self.lines.by_ref().lines() {
            permitted += line.expect("its output").matches("permitted").count();
        }
        assert!(
            self.child.wait().expect("its end").success(),
            "the worker failed"
        );
        permitted
    }
}

impl Drop for StoreWorker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the instant of a permit, in microseconds, from a line of a worker.
fn permit(line: &str) -> Option<u64> {
    line.split("permitted ").nth(1)?.trim().parse().ok()
}

fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{word}").and_then(|()| out.flush());
}

/// Does a worker's work, as its environment says.
pub(crate) fn work() {
    std::thread::spawn(|| {
        // The test that waits for a worker fails when it ends.
        pause(PATIENCE);
        std::process::exit(1);
    });
    let variable = |name: &str| std::env::var(name).expect("started by another test");
    let store = open(&variable("WORKER_LOCATION"));
    let key = variable("WORKER_KEY");
    let client = |rates, slots| WorkerClient::new(&*store, &key, rates, slots);
    match variable("WORKER_DOES").as_str() {
        // Takes what there is, one by one, and ends when there is no more.
        "fill" => {
            let client = client("2000/HOUR", None);
            while let AdmissionDecision::Go(_) = client.enter() {
                say("permitted");
            }
        }
        "fail" => {
            let client = client("1000/SECOND", None);
            if let AdmissionDecision::Go(permit) = client.enter() {
                client.settle(&permit, AttemptMeaning::Failure);
            }
        }
        "hold a reservation" => {
            let client = client("1/SECOND", None);
            while !matches!(client.wait().entry, AdmissionDecision::Wait(_)) {}
            hold_forever();
        }
        "hold a slot" => {
            let client = client("1000/SECOND", Some(1)).with_lease(LONG_LEASE);
            assert!(matches!(client.enter(), AdmissionDecision::Go(_)));
            hold_forever();
        }
        "hold the probe" => {
            let client = client("1000/SECOND", None).with_lease(LONG_LEASE);
            arrive(client.site.block(
                Duration::from_micros(1),
                &OpenReason::Operator("test".into()),
            ));
            while !matches!(
                client.enter(),
                AdmissionDecision::Go(Permit { probe: true, .. })
            ) {}
            hold_forever();
        }
        "learn without pause" => {
            learning::learn_without_pause(&WorkerClient::learning(
                &*store,
                &key,
                "300/SECOND+2000/HOUR",
            ));
        }
        "hammer" => hammer(&client("300/SECOND+2000/HOUR", Some(3))),
        "fork" => fork(&client("2000/HOUR", None)),
        other => match other.strip_prefix("pace at port ") {
            Some(port) => learning::pace(&WorkerClient::learning(&*store, &key, "50/SECOND"), port),
            None => panic!("a worker cannot {other}"),
        },
    }
}

/// Keeps what the worker holds until it is killed.
fn hold_forever() {
    say("holding");
    loop {
        pause(PATIENCE);
    }
}

#[expect(clippy::disallowed_methods, reason = "a worker runs in real time")]
fn pause(length: Duration) {
    std::thread::sleep(length);
}

/// Runs every operation without end: a kill hits it in the middle of one.
fn hammer(client: &WorkerClient) {
    say("holding");
    for turn in 0u32.. {
        match client.wait().entry {
            AdmissionDecision::Go(permit) if turn % 3 == 0 => {
                let ask = client.ask(BootInstant::FAR);
                arrive(client.site.hold(&ask, &permit, Duration::from_millis(5)));
                arrive(client.site.sent(&ask, &permit, Duration::ZERO));
                arrive(client.site.stamp(&ask, &permit));
                client.settle(&permit, AttemptMeaning::Neutral);
            }
            AdmissionDecision::Go(permit) => client.settle(&permit, AttemptMeaning::Success),
            AdmissionDecision::Wait(reserved) => {
                let ask = client.ask(BootInstant::FAR);
                arrive(client.site.leave(&ask, reserved.id, None));
            }
            // Those that wait for a slot are left behind, hundreds of them, as by processes that
            // are killed then.
            _ => {}
        }
    }
}

/// Uses the store, forks, and uses it again on both sides.
#[expect(unsafe_code, reason = "a fork has no safe interface")]
fn fork(client: &WorkerClient) {
    assert!(matches!(client.enter(), AdmissionDecision::Go(_)));
    // SAFETY: the child uses the store, which is what is tested, writes, and leaves without running
    // anything else.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "a child");
    for _ in 0..100 {
        assert!(matches!(client.enter(), AdmissionDecision::Go(_)));
        say("permitted");
    }
    if child == 0 {
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child ended well");
}
