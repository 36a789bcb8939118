use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::{Clock, Random};
use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::config::load::{ConfigSources, load};
use docstokg_hub::{Hub, Patience, RateWait, Request};
use docstokg_origin_sim::scholarly::{Faults, LibraryPlan, WorkLibrary};
use docstokg_origin_sim::{SimTransport, SimulatedWeb, Simulation};
use docstokg_policy::role::Role;
use parking_lot::Mutex;

/// Writes the limits of the hosts as command line arguments of a hub.
fn limits_as_flags(library: &WorkLibrary) -> CommandLineFlags {
    let limits = library.limits();
    let files = limits
        .iter()
        .filter(|(_, role, _)| role == "all" || role == "artifact");
    CommandLineFlags {
        rate: files
            .map(|(host, _, rate)| format!("{host}:artifact=rates:{rate},max_delay_ms:3600000"))
            .collect(),
        ..CommandLineFlags::default()
    }
}

#[test]
fn a_hub_that_is_told_the_limits_is_never_told_to_slow_down() {
    let plan = LibraryPlan {
        works: 100,
        scale: 2,
        faults: Faults::None,
        file_bytes: 2000..4000,
        ..LibraryPlan::default()
    };
    let library = WorkLibrary::generate(&plan);
    let simulation = Simulation::new();
    let web = SimulatedWeb::new(library.origins(), simulation.boot());
    let config = load(&ConfigSources {
        flags: limits_as_flags(&library),
        ..ConfigSources::default()
    })
    .unwrap()
    .0;
    let hub = Hub::builder(config)
        .runtime(simulation.runtime())
        .random(Random::seeded(7))
        .transport(SimTransport::new(&simulation, &web))
        .build()
        .unwrap();
    let statuses = Arc::new(Mutex::new(Vec::new()));
    let copies: Vec<String> = library
        .truth()
        .iter()
        .flat_map(|truth| &truth.copies)
        .map(|copy| copy.url.clone())
        .collect();
    for url in &copies {
        let request = Request::get(url.parse().unwrap())
            .role(Role::Artifact)
            .patience(Patience::Wait)
            .rate_wait(RateWait::Deadline);
        let request = request.deadline(Duration::from_secs(3_600));
        let (hub, statuses) = (hub.clone(), Arc::clone(&statuses));
        simulation.start(async move {
            let status = hub
                .fetch(request)
                .await
                .map(|answer| answer.head.status.as_u16());
            statuses
                .lock()
                .push(status.map_err(|error| error.to_string()));
        });
    }
    simulation.run();
    assert!(copies.len() > 100, "{}", copies.len());
    assert_eq!(*statuses.lock(), vec![Ok(200); copies.len()]);
    assert!(
        !web.ledger().statuses().contains_key(&429),
        "{:?}",
        web.ledger().statuses()
    );
    assert!(web.ledger().at("export.arxiv.org").len() > 10);
    web.ledger()
        .no_window_exceeded("export.arxiv.org", 2, Duration::from_secs(3))
        .unwrap();
}
