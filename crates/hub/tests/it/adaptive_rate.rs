//! The adaptive rate: what it counts, and how long it lasts.

use std::sync::Arc;

use docstokg_hub::clock::{Clock, Random};
use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::stores::StateStore;
use docstokg_hub::{Host, Hub, Repeatable};
use docstokg_origin_sim::{OriginScript, ScriptedReply, SimTransport, SimulatedWeb, Simulation};

use crate::support::{config, get, ms};

#[test]
fn an_adaptive_rate_ends_with_its_run() {
    for status in [429, 503] {
        let simulation = Simulation::new();
        let web = SimulatedWeb::new(
            [OriginScript::new("a.example").route("/", [ScriptedReply::status(status)])],
            simulation.boot(),
        );
        let store: Arc<dyn StateStore> = simulation.shared_store();
        let hub = || {
            let flags = CommandLineFlags {
                aimd: Some("enabled=true,window_s=1,decrease=50".into()),
                breaker: vec!["a.example=fail_max:1000".into()],
                ..CommandLineFlags::default()
            };
            Hub::builder(config(flags))
                .runtime(simulation.runtime())
                .store(Arc::clone(&store))
                .random(Random::seeded(3))
                .transport(SimTransport::new(&simulation, &web))
                .build()
                .expect("a hub")
        };
        let share = |hub: &Hub| {
            let hub = hub.clone();
            let view = simulation.block_on(async move {
                let host = Host::parse("a.example").expect("a host");
                hub.view(&host).await.expect("a view")
            });
            view.site.budgets()[0].multiplier().share()
        };
        let run = hub();
        for _ in 0..5 {
            let (hub, simulation) = (run.clone(), simulation.clone());
            let request = get("http://a.example/").repeatable(Repeatable::No);
            let _ = simulation.clone().block_on(async move {
                simulation.sleep(ms(600)).await;
                hub.fetch(request).await
            });
        }
        assert!(share(&run) <= 0.5, "{status} lowers the rate");
        let idle = hub();
        let closed = |hub: Hub| simulation.block_on(async move { hub.close().await });
        closed(idle).expect("a store");
        assert!(
            share(&run) <= 0.5,
            "a run that changed nothing ends nothing"
        );
        closed(run).expect("a store");
        assert!(
            (share(&hub()) - 1.0).abs() < 1e-9,
            "the next run starts anew"
        );
    }
}
