//! Works that are deferred for a host come back when its block ends earlier than it said.

use std::sync::Arc;
use std::time::Duration;

use docstokg_bulk::scheduler::RunEnd;
use docstokg_content::run::inputs::WorkList;
use docstokg_hub::clock::Random;
use docstokg_hub::{Host, Hub};
use docstokg_origin_sim::{ScriptedReply, SimTransport};

use crate::run_world::{World, plain_hosts, urls};

#[test]
fn an_operators_close_reaches_deferred_works_within_five_seconds() {
    let (mut origins, yaml) = plain_hosts(2, "5/SECOND", Duration::from_millis(50));
    let last = origins.pop().expect("a host");
    origins.push(last.outage(
        Duration::ZERO..Duration::from_secs(20),
        ScriptedReply::status(503).header("retry-after", "3000"),
    ));
    let mut world = World::new(origins, &yaml, |_| None);
    let store = world.simulation.shared_store();
    world.store = Some(Arc::clone(&store));
    let operator = Hub::builder(world.config.clone())
        .runtime(world.simulation.runtime())
        .store(store)
        .random(Random::seeded(9))
        .transport(SimTransport::new(&world.simulation, &world.web))
        .build()
        .expect("a hub");
    let simulation = world.simulation.clone();
    world.simulation.start(async move {
        simulation.sleep(Duration::from_secs(60)).await;
        operator
            .unblock(&Host::parse("h1.example").expect("a host"))
            .await
            .expect("it answers");
    });
    let (ended, took, progress) = world.run(Box::new(WorkList::new("list", urls(2, 20))), |_| {});
    assert!(matches!(ended, RunEnd::Complete), "{ended:?}");
    assert_eq!(progress.counters().done, 40);
    // Twenty files at five a second, beginning at most five seconds after the close.
    assert!(
        took > Duration::from_secs(60) && took < Duration::from_secs(60 + 5 + 6),
        "{took:?}"
    );
}
