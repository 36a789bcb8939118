//! Probes of a half-open breaker: how many, and what their end means.

use docstokg_hub::Role;
use docstokg_hub::policy::breaker::BreakerState;
use docstokg_origin_sim::{OriginScript, Piece, ScriptedReply};

use super::{flags, host, once};
use crate::support::{HubWorld, config, count, seconds};

#[test]
fn a_kept_connection_that_ends_under_a_probe_proves_nothing() {
    let replies = [
        ScriptedReply::status(429).header("retry-after", "4"),
        ScriptedReply::dead(Piece::Cut),
        ScriptedReply::ok("fine"),
    ];
    let world = HubWorld::new(
        [OriginScript::new("a.example").route("/", replies)],
        config(flags("fail_max:5,reset:60")),
    );
    let _ = world
        .run(|hub| async move { hub.fetch(once("/")).await })
        .expect("an answer");
    world.simulation.run_for(seconds(4));
    let error = world
        .run(|hub| async move { hub.fetch(once("/")).await })
        .expect_err("no answer");
    assert_eq!(error.kind.class(), "connection-closed");
    let view = world.view(&host());
    assert_eq!(
        (view.state(), view.leases()),
        (BreakerState::HalfOpen, [0; 3]),
        "no probe was answered, and the next may probe"
    );
    assert_eq!(
        world
            .run(|hub| async move { hub.fetch(once("/")).await })
            .expect("an answer")
            .head
            .status,
        200
    );
    assert_eq!(world.view(&host()).state(), BreakerState::Closed);
}

#[test]
fn half_open_admits_one_metadata_probe_and_two_artifact_probes() {
    for (role, probes) in [(Role::Metadata, 1), (Role::Artifact, 2)] {
        let origin = OriginScript::new("a.example").latency(seconds(2));
        let world = HubWorld::new([origin], config(flags("fail_max:5,reset:60")));
        world.block(&host(), seconds(1), "test");
        world.simulation.run_for(seconds(1));
        let outcomes = world.fetch_all((0..6).map(|n| once(&format!("/{n}")).role(role)).collect());
        assert_eq!(
            (count(&outcomes, "200"), count(&outcomes, "breaker_open")),
            (probes, 6 - probes),
            "{role}"
        );
        world
            .ledger()
            .at_most_in_flight("a.example", probes)
            .expect("few probes");
    }
}

#[test]
fn a_cancelled_probe_is_free_for_the_next_request() {
    let origin = OriginScript::new("a.example").latency(seconds(20));
    let world = HubWorld::new([origin], config(flags("fail_max:5,reset:60")));
    world.block(&host(), seconds(1), "test");
    world.simulation.run_for(seconds(1));
    let (hub, simulation) = (world.hub.clone(), world.simulation.clone());
    world.simulation.start(async move {
        let mut probe = Box::pin(hub.fetch(once("/slow")));
        let mut patience = simulation.sleep(seconds(3));
        std::future::poll_fn(|context| {
            assert!(probe.as_mut().poll(context).is_pending());
            Future::poll(patience.as_mut(), context)
        })
        .await;
    });
    world.simulation.run_for(seconds(2));
    assert_eq!(world.view(&host()).leases(), [1, 0, 0], "it is out");
    world.simulation.run_for(seconds(2));
    assert_eq!(
        world.view(&host()).leases(),
        [0, 0, 0],
        "dropped, its place is free"
    );
    assert!(
        world
            .run(|hub| async move { hub.fetch(once("/again")).await })
            .is_ok()
    );
}
