//! What responses and failures of a run say about the network.

use std::sync::Arc;
use std::time::Duration;

use docstokg_bulk::connectivity::{Connectivity, Reachability};
use docstokg_bulk::job::BoxFuture;
use docstokg_bulk::run_clock::RunClock;
use docstokg_hub::policy::classify::Fault;
use docstokg_hub::{
    CacheUse, Cause, Disposition, ErrorKind, FetchError, Host, Journey, RefusedBy, RetryLater,
    StaleReason, StatedBy,
};
use docstokg_origin_sim::Simulation;

/// A machine on which every host can be reached.
struct Connected;

impl Reachability for Connected {
    fn is_reachable<'a>(&'a self, _: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(true))
    }
}

fn failed(fault: Fault, host_failure: Option<StatedBy>) -> FetchError {
    let host = Host::parse("a.example").unwrap();
    let later = |stated_by| RetryLater {
        host: host.clone(),
        wait: Duration::from_secs(600),
        stated_by,
        by: RefusedBy::Host,
    };
    FetchError {
        journey: Journey {
            host_failure: host_failure.map(later),
            ..Journey::default()
        },
        kind: ErrorKind::Fault {
            fault,
            cause: Cause::from("text".to_owned()),
            host,
        },
        url: "http://a.example/".to_owned(),
    }
}

fn answered_by(cache: CacheUse, attempts: u32) -> Journey {
    Journey {
        attempts,
        cache,
        ..Journey::default()
    }
}

#[test]
fn an_answer_of_the_cache_is_no_sign_of_a_network() {
    let simulation = Simulation::new();
    let clock = RunClock::begin(simulation.runtime());
    let network = Arc::new(Connectivity::new(clock, None, Vec::new()));
    let judged = Arc::clone(&network);
    let offline =
        simulation.block_on(async move { judged.judge(&failed(Fault::NoRoute, None)).await });
    assert!(matches!(offline, Disposition::Offline(_)), "{offline:?}");
    let age = Duration::from_secs(60);
    let reason = StaleReason::Error;
    network.note_response(&answered_by(CacheUse::Hit { age }, 0));
    network.note_response(&answered_by(CacheUse::Stale { age, reason }, 3));
    assert!(network.lost_since().is_some(), "the cache has answered");
    network.note_response(&answered_by(CacheUse::Revalidated, 1));
    assert!(network.lost_since().is_none(), "an origin has answered");
}

#[test]
fn a_pause_is_believed_while_the_network_is_lost_unless_it_follows_from_failures() {
    let simulation = Simulation::new();
    let clock = RunClock::begin(simulation.runtime());
    let network = Connectivity::new(clock, None, Vec::new());
    let judged = simulation.block_on(async move {
        network.judge(&failed(Fault::NoRoute, None)).await;
        let mut judged = Vec::new();
        for stated_by in [StatedBy::Breaker, StatedBy::Server, StatedBy::Operator] {
            judged.push(network.judge(&failed(Fault::Read, Some(stated_by))).await);
        }
        judged
    });
    let Disposition::Offline(out_of_reach) = &judged[0] else {
        panic!("{judged:?}");
    };
    assert!(out_of_reach.wait <= Duration::from_secs(30));
    for stated in &judged[1..] {
        let Disposition::Retry(later) = stated else {
            panic!("{judged:?}");
        };
        assert_eq!(later.wait, Duration::from_secs(600));
    }
}

#[test]
fn a_host_that_alone_is_out_of_reach_is_waited_for_like_one_that_is_down() {
    let simulation = Simulation::new();
    let clock = RunClock::begin(simulation.runtime());
    let certain = vec!["certain.example".to_owned()];
    let network = Connectivity::new(clock, Some(Arc::new(Connected)), certain);
    let (judged, lost) = simulation.block_on(async move {
        let judged = network.judge(&failed(Fault::NoRoute, None)).await;
        (judged, network.lost_since())
    });
    let Disposition::Retry(later) = judged else {
        panic!("{judged:?}");
    };
    assert!(later.stated_by.is_inferred() && lost.is_none());
}
