//! Crawl delays: kept over roles, retries and processes, and visible to an operator.

use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::{Clock, Random};
use docstokg_hub::diagnosis::LimitSource;
use docstokg_hub::{Hub, Role};
use docstokg_origin_sim::{Arrival, Piece, ScriptedReply, SimTransport, SimulatedWeb, Simulation};
use parking_lot::Mutex;

use super::{answering, host, obeying, robots_requests, unlimited};
use crate::support::{HubWorld, count, ms, seconds};

/// Paths that end with 0 break off in the middle of their body the first time.
fn breaking(arrival: &Arrival, before: usize) -> ScriptedReply {
    if before == 0 && arrival.path.ends_with('0') {
        let pieces = [Piece::Bytes("half".into()), Piece::Reset];
        ScriptedReply::ok("").chunked().pieces(pieces)
    } else {
        ScriptedReply::ok("whole")
    }
}

/// Checks that pages arrived at least `delay` apart, robots.txt aside.
fn assert_spaced(web: &SimulatedWeb, delay: Duration) -> usize {
    let arrivals = web.ledger().at("a.example").into_iter();
    let pages: Vec<Arrival> = arrivals
        .filter(|arrival| arrival.path != "/robots.txt")
        .collect();
    for pair in pages.windows(2) {
        let apart = pair[1].at.since(pair[0].at);
        assert!(
            apart >= delay,
            "{} and {} are {apart:?} apart",
            pair[0].path,
            pair[1].path
        );
    }
    pages.len()
}

#[test]
fn a_crawl_delay_spaces_roles_and_retries() {
    for seed in 0..4 {
        let origin = answering("User-agent: *\nCrawl-delay: 5\n").handler(breaking);
        let world = HubWorld::seeded([origin], unlimited(), seed);
        let requests = (0..10).flat_map(|n| {
            [
                obeying(&format!("http://a.example/page/{n}")).role(Role::Landing),
                obeying(&format!("http://a.example/file/{n}")).role(Role::Artifact),
            ]
        });
        let outcomes = world.fetch_all(requests.collect());
        assert_eq!(count(&outcomes, "200"), 20, "{outcomes:?}");
        let retried = 2;
        assert_eq!(assert_spaced(&world.web, seconds(5)), 20 + retried);
        assert_eq!(robots_requests(&world), 1);
        let last = outcomes.last().map_or(0.0, |(at, _)| *at);
        assert!(last < 21.0 * 5.5, "no turn is lost: {last}");
    }
}

#[test]
fn a_crawl_delay_spaces_the_requests_of_two_processes() {
    for seed in 0..8 {
        let simulation = Simulation::seeded(seed);
        let origin = answering("User-agent: *\nCrawl-delay: 5\n").handler(breaking);
        let web = SimulatedWeb::new([origin], simulation.boot());
        let store = if seed % 2 == 0 {
            simulation.shared_store()
        } else {
            simulation.remote_store(ms(40))
        };
        let done = Arc::new(Mutex::new(0));
        let mut processes = Vec::new();
        for number in 0..2 {
            let process = simulation.process();
            let hub = Hub::builder(unlimited())
                .runtime(process.runtime())
                .store(Arc::clone(&store))
                .random(Random::seeded(seed * 2 + number))
                .transport(SimTransport::new(&simulation, &web))
                .build()
                .expect("a hub");
            for n in 0..6 {
                let (hub, done) = (hub.clone(), Arc::clone(&done));
                let role = if n % 2 == 0 {
                    Role::Landing
                } else {
                    Role::Artifact
                };
                let request = obeying(&format!("http://a.example/{number}/{n}")).role(role);
                process.run(async move {
                    let answer = hub.fetch(request).await;
                    assert_eq!(
                        answer.unwrap_or_else(|error| panic!("{error}")).body,
                        "whole"
                    );
                    *done.lock() += 1;
                });
            }
            processes.push((process, hub));
        }
        simulation.run();
        assert_eq!(*done.lock(), 12, "all get through, seed {seed}");
        let retried = 2;
        assert_eq!(assert_spaced(&web, seconds(5)), 12 + retried, "seed {seed}");
    }
}

#[test]
fn the_diagnosis_of_another_process_shows_what_waits_for_a_crawl_delay() {
    let simulation = Simulation::new();
    let origin = answering("User-agent: *\nCrawl-delay: 60\n");
    let web = SimulatedWeb::new([origin], simulation.boot());
    let store = simulation.shared_store();
    let hub = || {
        Hub::builder(unlimited())
            .runtime(simulation.runtime())
            .store(Arc::clone(&store))
            .random(Random::seeded(2))
            .transport(SimTransport::new(&simulation, &web))
            .build()
            .expect("a hub")
    };
    let (running, doctor) = (hub(), hub());
    for role in Role::ALL {
        for n in 0..2 {
            let hub = running.clone();
            let request = obeying(&format!("http://a.example/{n}")).role(role);
            simulation.start(async move { drop(hub.fetch(request).await) });
        }
    }
    let diagnose = || {
        let doctor = doctor.clone();
        let found = simulation.block_on(async move { doctor.diagnose(&host("a.example")).await });
        let found = found.expect("the store answers").swap_remove(0).budgets;
        found
            .into_iter()
            .find(|budget| budget.source == LimitSource::RobotsTxt)
    };
    assert!(diagnose().is_none(), "no crawl delay is known yet");
    simulation.run_for(seconds(90));
    let budget = diagnose().expect("the budget of the crawl delay");
    assert_eq!(budget.name, "a.example crawl-delay");
    assert!(
        budget.windows.is_empty() && budget.waiting > 0,
        "{budget:?}"
    );
    let (_, waited) = budget.waits[0];
    assert!(waited > seconds(50), "{budget:?}");
}
