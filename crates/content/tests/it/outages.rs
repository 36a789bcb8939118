//! Runs over a host that is down for a while, in every way a host can be down: no work is lost, the
//! run takes little more than the outage and the least time, and few requests meet the outage.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use docstokg_bulk::connectivity::Reachability;
use docstokg_bulk::job::BoxFuture;
use docstokg_bulk::scheduler::RunEnd;
use docstokg_content::run::inputs::WorkList;
use docstokg_hub::config::LearnSetting;
use docstokg_hub::policy::classify::Fault;
use docstokg_hub::policy::pacing::Pacing;
use docstokg_origin_sim::{OriginScript, Piece, ScriptedReply, Simulation};

use crate::run_world::{World, pdf, urls};

const FILES: usize = 200;
/// The least time of the files: ten a second.
const LEAST: Duration = Duration::from_secs(20);

/// The way in which a host is down.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Down {
    Unavailable,
    /// The host says after how many seconds it will be back, and is not.
    UnavailableFor(u32),
    InternalError,
    Reset,
    ClosedPort,
    /// The packets to this host alone are lost on their way.
    NoRoute,
    Timeout,
}

const WAYS: [Down; 9] = [
    Down::Unavailable,
    Down::UnavailableFor(0),
    Down::UnavailableFor(1),
    Down::UnavailableFor(5),
    Down::InternalError,
    Down::Reset,
    Down::ClosedPort,
    Down::NoRoute,
    Down::Timeout,
];

impl Down {
    fn reply(self) -> Option<ScriptedReply> {
        match self {
            Self::Unavailable => Some(ScriptedReply::status(503)),
            Self::UnavailableFor(seconds) => {
                let reply = ScriptedReply::status(503).header("retry-after", &seconds.to_string());
                Some(reply)
            }
            Self::InternalError => Some(ScriptedReply::status(500)),
            Self::Reset => Some(ScriptedReply::dead(Piece::Reset)),
            Self::ClosedPort | Self::NoRoute | Self::Timeout => None,
        }
    }

    fn fault(self) -> Option<Fault> {
        match self {
            Self::ClosedPort => Some(Fault::Connect),
            Self::NoRoute => Some(Fault::NoRoute),
            Self::Timeout => Some(Fault::Timeout),
            Self::Unavailable | Self::UnavailableFor(_) | Self::InternalError | Self::Reset => None,
        }
    }
}

/// A machine that reaches every other host.
struct Connected;

impl Reachability for Connected {
    fn is_reachable<'a>(&'a self, _: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(true))
    }
}

/// What came of a run.
struct Ran {
    ended: RunEnd,
    took: Duration,
    /// How many requests met the outage.
    met: usize,
    /// How many files came.
    done: u64,
    /// How many works failed.
    failed: u64,
}

/// Runs over one host that is down, robots.txt and all, whenever `is_down` says so.
fn run(down: Down, is_down: fn(Duration) -> bool) -> Ran {
    let ran = run_waiting(down, is_down, seconds(3_600));
    assert!(
        matches!(ran.ended, RunEnd::Complete),
        "{down:?}: {:?}",
        ran.ended
    );
    ran
}

/// As [`run`], but waits at most `max_wait` for a host that is down.
fn run_waiting(down: Down, is_down: fn(Duration) -> bool, max_wait: Duration) -> Ran {
    let simulation = Simulation::new();
    let met = Arc::new(AtomicUsize::new(0));
    let (time, count) = (simulation.clone(), Arc::clone(&met));
    let origin = OriginScript::new("h0.example")
        .latency(Duration::from_millis(50))
        .handler(move |arrival, _| match down.reply() {
            Some(reply) if is_down(time.elapsed()) => {
                count.fetch_add(1, Ordering::Relaxed);
                reply
            }
            _ => pdf(&arrival.path),
        });
    let yaml =
        "version: 1\nlimits:\n  hosts:\n    h0.example: { artifact: { rates: [10/SECOND] } }\n";
    let mut world = World::within(simulation, vec![origin], yaml, |_| None);
    world.config.limits.pacing = Pacing::Even;
    world.config.limits.learn_unless_set = LearnSetting::Tighten;
    world.reachability = Some(Arc::new(Connected));
    if let Some(fault) = down.fault() {
        let count = Arc::clone(&met);
        world.faults = Some(Arc::new(move |_, now| {
            let is_met = is_down(now);
            count.fetch_add(usize::from(is_met), Ordering::Relaxed);
            is_met.then_some(fault)
        }));
    }
    let works = urls(1, FILES);
    let list = Box::new(WorkList::new("list", works));
    let (ended, took, progress) = world.run(list, |options| options.max_wait = max_wait);
    Ran {
        ended,
        took,
        met: met.load(Ordering::Relaxed),
        done: progress.counters().done,
        failed: progress.counters().failed,
    }
}

/// Runs over outages of one kind, and asserts what each of them costs.
fn check(name: &str, length: Duration, is_down: fn(Duration) -> bool) {
    for down in WAYS {
        let ran = run(down, is_down);
        let shown = format!("{name}, {down:?}: {:?}, {} met it", ran.took, ran.met);
        assert_eq!(ran.done, FILES as u64, "{shown}");
        assert!(ran.took <= (length + LEAST).mul_f64(1.2), "{shown}");
        // Five open the breaker, some are under way then, and probes follow at growing distances.
        assert!(ran.met <= 45, "{shown}");
    }
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn works_survive_outages_in_the_middle_of_a_run() {
    check("30 s", seconds(30), |now| (3..33).contains(&now.as_secs()));
    check("70 s", seconds(70), |now| (3..73).contains(&now.as_secs()));
    check("150 s", seconds(150), |now| {
        (3..153).contains(&now.as_secs())
    });
    check("600 s", seconds(600), |now| {
        (3..603).contains(&now.as_secs())
    });
}

#[test]
fn works_survive_outages_that_last_when_the_run_begins() {
    check("30 s from the start", seconds(30), |now| now.as_secs() < 30);
    check("150 s from the start", seconds(150), |now| {
        now.as_secs() < 150
    });
}

#[test]
fn works_survive_a_host_that_is_down_three_seconds_of_five() {
    // A status of 500 may be the file's: where other requests are served, it ends its work. A host
    // that says five seconds is left alone for as long.
    let others = [Down::InternalError, Down::UnavailableFor(5)];
    for down in WAYS.into_iter().filter(|down| !others.contains(down)) {
        let ran = run(down, |now| now.as_millis() % 5_000 < 3_000);
        let shown = format!("{down:?}: {:?}, {} met it", ran.took, ran.met);
        assert_eq!(ran.done, FILES as u64, "{shown}");
        // Each time a probe finds the host back within a second, and requests come back gradually.
        let down_for = ran.took.mul_f64(0.6);
        assert!(ran.took <= (down_for + LEAST).mul_f64(1.25), "{shown}");
    }
}

#[test]
fn a_run_ends_soon_after_max_wait_and_loses_no_work() {
    let max_wait = 10;
    for down in WAYS {
        let ran = run_waiting(down, |now| now.as_secs() >= 3, seconds(max_wait));
        let shown = format!(
            "{down:?}, {max_wait} s: {:?} after {:?}",
            ran.ended, ran.took
        );
        assert!(matches!(ran.ended, RunEnd::Deferred { .. }), "{shown}");
        assert_eq!(ran.failed, 0, "{shown}");
        // What is on the wire when the host goes down ends by itself, and so does the last probe.
        assert!(ran.took <= seconds(3 + max_wait + 6), "{shown}");
        // Nor does a run give up before.
        assert!(ran.took >= seconds(max_wait), "{shown}");
    }
}

#[test]
fn a_run_outlasts_an_outage_that_is_shorter_than_max_wait() {
    for down in WAYS {
        let ran = run_waiting(down, |now| (3..9).contains(&now.as_secs()), seconds(10));
        let shown = format!("{down:?}: {:?} after {:?}", ran.ended, ran.took);
        assert_eq!(ran.done, FILES as u64, "{shown}");
    }
}
