//! What an outage of ten seconds costs, by the ledger of the origin.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::event::EventKind;
use docstokg_hub::policy::breaker::{BreakerState, OpenReason, Transition};
use docstokg_hub::{Patience, RequestGroup};
use docstokg_origin_sim::{OriginScript, ScriptedReply};
use parking_lot::Mutex;

use crate::support::{HubWorld, config, count, get, ms, seconds};

const REQUESTS: u64 = 200;
/// When the last request is offered, at ten per second.
const OFFERED_UNTIL: f64 = 20.0;

fn world(latency_ms: u64, seed: u64) -> HubWorld {
    let origin = OriginScript::new("a.example")
        .latency(ms(latency_ms))
        .outage(seconds(5)..seconds(15), ScriptedReply::status(503));
    let flags = CommandLineFlags {
        rate: vec!["a.example:metadata=rates:10/SECOND,max_concurrent:8,max_delay_ms:60000".into()],
        ..CommandLineFlags::default()
    };
    HubWorld::seeded([origin], config(flags), seed)
}

/// Offers ten requests per second, and returns when the last one ended and how many succeeded.
fn offer(world: &HubWorld) -> (f64, usize) {
    let ended = Arc::new(Mutex::new(Vec::new()));
    for number in 0..REQUESTS {
        let (hub, simulation) = (world.hub.clone(), world.simulation.clone());
        let ended = Arc::clone(&ended);
        world.simulation.start(async move {
            simulation.sleep(ms(100 * number)).await;
            let request = get(&format!("http://a.example/{number}"))
                .patience(Patience::Wait)
                .deadline(seconds(120));
            let answer = hub.fetch(request).await.expect("an answer");
            let at = simulation.elapsed().as_secs_f64();
            ended.lock().push((at, answer.head.status.as_u16()));
        });
    }
    world.simulation.run();
    let ended = ended.lock();
    let last = ended.iter().map(|(at, _)| *at).fold(0.0, f64::max);
    (
        last,
        ended.iter().filter(|(_, status)| *status == 200).count(),
    )
}

/// Lists the changes of state that were opens, by reason.
fn opens(world: &HubWorld) -> Vec<OpenReason> {
    let to_open = |transition: &Transition| match transition.to {
        BreakerState::Open => transition.reason.clone(),
        BreakerState::Closed | BreakerState::HalfOpen => None,
    };
    let events = world.events.0.lock();
    let changes = events.iter().filter_map(|event| match &event.what {
        EventKind::Breaker { transition, .. } => to_open(transition),
        _ => None,
    });
    changes.collect()
}

#[test]
fn an_outage_of_ten_seconds_costs_thirteen_and_few_requests_meet_it() {
    // A slow origin has more requests in flight when the first failure is known.
    for (latency_ms, longest) in [(20, 13.0), (80, 13.0), (300, 13.0), (700, 14.5)] {
        for seed in 0..12 {
            let world = world(latency_ms, seed);
            let (last, succeeded) = offer(&world);
            let case = format!("latency {latency_ms} ms, seed {seed}");
            let statuses = world.ledger().statuses();
            let met = statuses.get(&503).copied().unwrap_or(0);
            assert!(met <= 14, "{case}: {met} requests met it");
            assert!(last <= OFFERED_UNTIL + longest, "{case}: it took {last} s");
            assert_eq!(succeeded, 200, "{case}: {statuses:?}");
            let ledger = world.ledger();
            ledger
                .no_window_exceeded("a.example", 10, seconds(1))
                .unwrap_or_else(|window| panic!("{case}: {window}"));
            ledger
                .at_most_in_flight("a.example", 8)
                .unwrap_or_else(|crowd| panic!("{case}: {crowd}"));
            let reasons = opens(&world);
            assert_eq!(reasons[0], OpenReason::Consecutive, "{case}");
            assert!(
                reasons[1..]
                    .iter()
                    .all(|reason| *reason == OpenReason::EarlyProbeFailed),
                "{case}: one outage is one open: {reasons:?}"
            );
        }
    }
}

/// After a failure few requests are on their way, and yet every one of many gets its turn: slow
/// answers, lost ones and cancelled requests keep none of the others waiting.
#[test]
fn after_a_failure_more_requests_than_may_go_at_once_all_get_through() {
    let asked = AtomicUsize::new(0);
    let origin =
        OriginScript::new("a.example").handler(move |_, _| match asked.fetch_add(1, Relaxed) {
            0 => ScriptedReply::status(500).after(ms(50)),
            // Nothing tells for a while whether the host is down.
            1..=25 => ScriptedReply::ok("").after(seconds(8)),
            _ => ScriptedReply::ok("").after(ms(100)),
        });
    let flags = CommandLineFlags {
        rate: vec![
            "a.example:metadata=rates:20/SECOND,max_concurrent:40,max_delay_ms:60000".into(),
        ],
        ..CommandLineFlags::default()
    };
    let world = HubWorld::new([origin], config(flags));
    let group = Arc::new(RequestGroup::default());
    let cancel = Arc::clone(&group);
    let simulation = world.simulation.clone();
    world.simulation.start(async move {
        simulation.sleep(seconds(3)).await;
        cancel.cancel();
    });
    let requests = (0..60).map(|number| {
        let request = get(&format!("http://a.example/{number}"))
            .patience(Patience::Wait)
            .deadline(seconds(120));
        if number % 6 == 5 {
            request.in_group(Arc::clone(&group))
        } else {
            request
        }
    });
    let outcomes = world.fetch_all(requests.collect());
    let ended = |word: &str| outcomes.iter().filter(|outcome| outcome.1 == word).count();
    assert_eq!(ended("200") + ended("cancelled"), 60, "{outcomes:?}");
    assert!(ended("200") >= 50, "{outcomes:?}");
    assert!(outcomes.last().expect("the last").0 < 14.0, "{outcomes:?}");
    let events = world.events.0.lock();
    let waits = events.iter().filter_map(|event| match event.what {
        EventKind::WaitCaution { failures } => Some(failures),
        _ => None,
    });
    assert!(waits.clone().count() > 0, "the waits are explained");
    assert!(waits.max() <= Some(2));
}

/// A request that may not wait long goes at once, whatever is on its way.
#[test]
fn after_a_failure_a_request_that_may_not_wait_goes_at_once() {
    let asked = AtomicUsize::new(0);
    let origin =
        OriginScript::new("a.example").handler(move |_, _| match asked.fetch_add(1, Relaxed) {
            0 => ScriptedReply::status(500).after(ms(50)),
            _ => ScriptedReply::ok("").after(seconds(20)),
        });
    let flags = CommandLineFlags {
        rate: vec!["a.example:metadata=rates:100/SECOND,max_concurrent:40,max_delay_ms:300".into()],
        ..CommandLineFlags::default()
    };
    let world = HubWorld::exact([origin], config(flags));
    let (hub, simulation) = (world.hub.clone(), world.simulation.clone());
    world.simulation.start(async move {
        simulation.sleep(ms(500)).await;
        let _ = hub.fetch(get("http://a.example/hurried")).await;
    });
    let requests = (0..10).map(|number| get(&format!("http://a.example/{number}")));
    let outcomes = world.fetch_all(requests.collect());
    assert_eq!(count(&outcomes, "200"), 10, "{outcomes:?}");
    let arrivals = world.ledger().at("a.example");
    let hurried = arrivals.iter().find(|arrival| arrival.path == "/hurried");
    let at = hurried.expect("it came").at.since(arrivals[0].at);
    assert!((ms(400)..ms(600)).contains(&at), "{at:?}");
}
