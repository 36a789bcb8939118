//! Concurrent requests for the same thing.

use std::sync::Arc;

use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_hub::policy::freshness::CacheMode;
use docstokg_hub::{RelayMode, RequestGroup};
use docstokg_origin_sim::{Listener, OriginScript, Piece, ScriptedReply, Security, SimulatedWeb};

use super::stored::on_disk;
use super::{caching, fresh, url};
use crate::support::{HubWorld, count, ms, on_sockets, seconds};

/// An origin whose answers take two seconds.
fn slow(replies: impl IntoIterator<Item = ScriptedReply>) -> OriginScript {
    OriginScript::new("a.example")
        .latency(seconds(2))
        .route("/", replies)
}

#[test]
fn sixty_four_cold_requests_send_one() {
    let world = HubWorld::new([slow([fresh("one", 600)])], caching("1/HOUR"));
    let outcomes = world.fetch_all((0..64).map(|_| url("/")).collect());
    assert_eq!(count(&outcomes, "200"), 64, "{outcomes:?}");
    assert_eq!(world.ledger().len(), 1);
    assert!(outcomes.iter().all(|(at, _)| *at < 3.0), "{outcomes:?}");
}

#[test]
fn relayed_requests_wait_for_another_one_no_longer_than_they_may_be_held() {
    let slow_body =
        fresh("one", 600).pieces([Piece::Pause(seconds(25)), Piece::Bytes("one".into())]);
    let replies = [slow_body, fresh("two", 600), fresh("three", 600)];
    let origin = OriginScript::new("a.example").route("/", replies);
    let world = HubWorld::exact([origin], caching("100/SECOND"));
    let relay = RelayMode {
        mode: CacheMode::Private,
        hold: seconds(4),
        heuristic: None,
        ignored_fields: Arc::default(),
    };
    let requests = (0..3).map(|_| url("/").relayed(relay.clone())).collect();
    let outcomes = world.fetch_all(requests);
    assert_eq!(count(&outcomes, "200"), 3, "{outcomes:?}");
    assert_eq!(world.ledger().len(), 3);
    let quick = outcomes.iter().filter(|(at, _)| (4.0..5.0).contains(at));
    assert_eq!(quick.count(), 2, "the leader alone is slow: {outcomes:?}");
    // What the two stored answers the next ones.
    let again = world.fetch_all((0..3).map(|_| url("/").relayed(relay.clone())).collect());
    assert_eq!((count(&again, "200"), world.ledger().len()), (3, 3));
}

#[test]
fn an_answer_that_is_not_reusable_releases_all_waiters_at_once_and_is_remembered() {
    let reply = ScriptedReply::ok("one").header("cache-control", "no-store");
    let mut config = caching("1000/SECOND");
    config.limits.max_inflight.value = None;
    let world = HubWorld::exact([slow([reply])], config);
    let outcomes = world.fetch_all((0..20).map(|_| url("/")).collect());
    assert_eq!(count(&outcomes, "200"), 20);
    assert_eq!(world.ledger().len(), 20);
    let last = outcomes.iter().map(|(at, _)| *at).fold(0.0, f64::max);
    assert!(last < 5.0, "one leader, then all others together: {last}");
    let started = world.simulation.elapsed().as_secs_f64();
    let outcomes = world.fetch_all((0..20).map(|_| url("/")).collect());
    let last = outcomes.iter().map(|(at, _)| *at).fold(0.0, f64::max) - started;
    assert!(last < 3.0, "no request waits for another one: {last}");
}

#[test]
fn the_deadline_and_the_refusal_of_a_leader_are_its_own() {
    let world = HubWorld::exact([slow([fresh("one", 600)])], caching("2/HOUR"));
    let mut requests = vec![url("/").deadline(ms(500))];
    requests.extend((0..10).map(|_| url("/").deadline(seconds(30))));
    let outcomes = world.fetch_all(requests);
    assert_eq!(count(&outcomes, "deadline"), 1, "{outcomes:?}");
    assert_eq!(count(&outcomes, "200"), 10, "{outcomes:?}");
    assert_eq!(world.ledger().len(), 2);
}

#[test]
fn a_leader_whose_caller_goes_away_is_followed_by_another() {
    let world = HubWorld::exact([slow([fresh("one", 600)])], caching("100/SECOND"));
    let hub = world.hub.clone();
    let simulation = world.simulation.clone();
    world.simulation.start(async move {
        let request = url("/");
        let leader = hub.fetch(request);
        let gone = simulation.sleep(ms(300));
        tokio::select! {
            _ = leader => panic!("the answer takes two seconds"),
            () = gone => {}
        }
    });
    let outcomes = world.fetch_all((0..10).map(|_| url("/")).collect());
    assert_eq!(count(&outcomes, "200"), 10, "{outcomes:?}");
    assert_eq!(world.ledger().len(), 2);
}

#[test]
fn a_waiter_can_be_cancelled_and_has_its_own_deadline() {
    let world = HubWorld::exact([slow([fresh("one", 600)])], caching("100/SECOND"));
    let group = Arc::new(RequestGroup::default());
    let (ending, simulation) = (Arc::clone(&group), world.simulation.clone());
    world.simulation.start(async move {
        simulation.sleep(ms(500)).await;
        ending.cancel();
    });
    let outcomes = world.fetch_all(vec![
        url("/"),
        url("/").in_group(group),
        url("/").deadline(seconds(1)),
    ]);
    let expected = [(0.5, "cancelled"), (1.0, "deadline"), (2.0, "200")];
    for ((at, outcome), (expected_at, expected)) in outcomes.iter().zip(expected) {
        assert_eq!(outcome, expected, "{outcomes:?}");
        assert!((at - expected_at).abs() < 0.1, "{outcomes:?}");
    }
    assert_eq!(world.ledger().len(), 1);
}

#[test]
fn an_origin_that_fails_releases_all_waiters_at_once() {
    let mut config = caching("1000/SECOND");
    config.retry.attempts = std::num::NonZeroU32::MIN;
    let world = HubWorld::exact([slow([ScriptedReply::status(500)])], config);
    let outcomes = world.fetch_all((0..4).map(|_| url("/")).collect());
    assert_eq!(count(&outcomes, "500"), 4, "{outcomes:?}");
    let last = outcomes.iter().map(|(at, _)| *at).fold(0.0, f64::max);
    assert!(last < 5.0, "{outcomes:?}");
}

#[test]
fn flights_that_redirect_into_each_other_end() {
    let leads = |to: &str| ScriptedReply::redirect(301, to).header("cache-control", "max-age=600");
    let origin = OriginScript::new("a.example")
        .latency(seconds(1))
        .route("/a", [leads("/b")])
        .route("/b", [leads("/a")]);
    let world = HubWorld::exact([origin], caching("100/SECOND"));
    let outcomes = world.fetch_all(vec![url("/a"), url("/b"), url("/a"), url("/b")]);
    assert_eq!(count(&outcomes, "redirect"), 4, "{outcomes:?}");
    assert_eq!(
        world.ledger().len(),
        2,
        "each of the two was requested once"
    );
}

#[test]
fn hubs_that_share_a_directory_send_one_request_for_all_that_want_the_same() {
    on_sockets(async {
        let origin = OriginScript::new("a.example")
            .latency(ms(300))
            .route("/", [fresh("one", 600)]);
        let web = SimulatedWeb::new([origin], SystemClock.boot());
        let listener = Listener::start(&web, Security::Plain).await;
        let listener = listener.expect("a listener");
        let state = tempfile::tempdir().expect("a directory");
        let hubs = [(); 4].map(|()| on_disk(&listener, state.path()));
        let mut running = tokio::task::JoinSet::new();
        for hub in hubs.iter().cycle().take(64) {
            let hub = hub.clone();
            running.spawn(async move { hub.fetch(url("/")).await });
        }
        while let Some(answer) = running.join_next().await {
            let answer = answer.expect("a task").expect("an answer");
            assert_eq!(answer.body, "one");
        }
        assert_eq!(web.ledger().len(), 1);
    });
}
