//! More requests than a window permits, over several processes of one simulation that wake late,
//! stand still and die.

use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::{Clock, Random};
use docstokg_hub::{Hub, RateWait};
use docstokg_origin_sim::{OriginScript, Process, SimTransport, SimulatedWeb, Simulation};
use parking_lot::Mutex;

use crate::support::{config, get, ms, rates, seconds};

/// Processes that share one store and one origin.
struct Crowd {
    simulation: Simulation,
    web: SimulatedWeb,
    processes: Vec<(Process, Hub)>,
    done: Arc<Mutex<Vec<(usize, u64)>>>,
}

impl Crowd {
    /// Lets `count` processes ask for `each` things at once.
    fn new(seed: u64, count: usize, each: usize, rate: &str) -> Self {
        Self::on(seed, None, count, each, rate)
    }

    /// The same with a store at this distance.
    fn on(seed: u64, round_trip: Option<Duration>, count: usize, each: usize, rate: &str) -> Self {
        let simulation = Simulation::seeded(seed);
        let web = SimulatedWeb::new(
            [OriginScript::new("a.example").latency(ms(30))],
            simulation.boot(),
        );
        let store = round_trip.map_or_else(
            || simulation.shared_store(),
            |length| simulation.remote_store(length),
        );
        let done = Arc::new(Mutex::new(Vec::new()));
        let mut processes = Vec::new();
        for number in 0..count {
            let process = simulation.process();
            let hub = Hub::builder(config(rates(&[&format!(
                "a.example:metadata=rates:{rate}"
            )])))
            .runtime(process.runtime())
            .store(Arc::clone(&store))
            .random(Random::seeded(seed + number as u64))
            .transport(SimTransport::new(&simulation, &web))
            .build()
            .expect("a hub");
            for request in 0..each {
                let (hub, done, simulation) = (hub.clone(), Arc::clone(&done), simulation.clone());
                process.run(async move {
                    let request = get(&format!("http://a.example/{number}/{request}"))
                        .rate_wait(RateWait::Deadline)
                        .deadline(seconds(3_600));
                    let answer = hub
                        .fetch(request)
                        .await
                        .unwrap_or_else(|error| panic!("{error}"));
                    assert_eq!(answer.head.status, 200);
                    done.lock().push((
                        number,
                        u64::try_from(simulation.elapsed().as_millis()).expect("a short run"),
                    ));
                });
            }
            processes.push((process, hub));
        }
        Self {
            simulation,
            web,
            processes,
            done,
        }
    }

    fn done_by(&self, process: usize) -> usize {
        self.done
            .lock()
            .iter()
            .filter(|(number, _)| *number == process)
            .count()
    }

    fn last(&self) -> u64 {
        self.done
            .lock()
            .iter()
            .map(|(_, at)| *at)
            .max()
            .unwrap_or(0)
    }
}

#[test]
fn more_processes_than_a_window_allows_all_get_through_in_time() {
    for (rate, limit, processes, each) in [
        ("1/SECOND", 1, 2, 6),
        ("1/SECOND", 1, 8, 3),
        ("2/SECOND", 2, 4, 6),
        ("2/SECOND", 2, 8, 4),
        ("10/SECOND", 10, 20, 5),
    ] {
        for seed in 0..8 {
            let crowd = Crowd::new(seed, processes, each, rate);
            crowd.simulation.run();
            let total = processes * each;
            assert_eq!(
                crowd.done.lock().len(),
                total,
                "{rate}, {processes} processes, seed {seed}"
            );
            crowd
                .web
                .ledger()
                .no_window_exceeded("a.example", limit, seconds(1))
                .expect("no window is exceeded");
            // The ideal, twenty milliseconds of lateness a turn, and half a second now and then.
            let ideal = (total - 1) / limit * 1_010;
            let most = ideal + ideal / 20 + 1_500;
            assert!(
                crowd.last() <= most as u64,
                "{rate}, {processes} processes, seed {seed}: {} ms of {ideal}",
                crowd.last()
            );
        }
    }
}

#[test]
fn processes_that_die_or_stand_still_cost_the_others_little() {
    for seed in 0..12 {
        let crowd = Crowd::new(seed, 6, 8, "2/SECOND");
        crowd.simulation.run_for(ms(3_300));
        let (before, victims) = (crowd.done.lock().len(), 2);
        crowd.processes[0].0.kill();
        crowd.processes[1].0.kill();
        crowd.processes[2].0.pause(seconds(2));
        let killed: usize = (0..victims).map(|number| crowd.done_by(number)).sum();
        crowd.simulation.run();
        for survivor in victims..6 {
            assert_eq!(
                crowd.done_by(survivor),
                8,
                "seed {seed}: process {survivor} got through"
            );
        }
        crowd
            .web
            .ledger()
            .no_window_exceeded("a.example", 2, seconds(1))
            .expect("no window is exceeded");
        // What is left takes half a second each; a dead reservation costs three seconds, and there
        // are two.
        let left = 6 * 8 - before - (victims * 8 - killed);
        let most = 3_300 + left as u64 * 530 + 2 * 3_000 + 2_000;
        assert!(
            crowd.last() <= most,
            "seed {seed}: {} ms, at most {most}",
            crowd.last()
        );
    }
}

#[test]
fn one_process_with_two_hosts_of_one_site_shares_its_budget() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(
        file.path(),
        "sites: { two: { hosts: [a.example, b.example], common: { rates: [\"1/SECOND\"] } } }",
    )
    .expect("a file");
    let sources = docstokg_hub::config::load::ConfigSources {
        file: Some(file.path().to_owned()),
        ..Default::default()
    };
    let (config, _) = docstokg_hub::config::load::load(&sources).expect("a configuration");
    let world = crate::support::HubWorld::new(
        [
            OriginScript::new("a.example"),
            OriginScript::new("b.example"),
        ],
        config,
    );
    let requests = (0..10).map(|n| {
        get(&format!(
            "http://{}.example/{n}",
            if n % 2 == 0 { "a" } else { "b" }
        ))
        .rate_wait(RateWait::Deadline)
    });
    let outcomes = world.fetch_all(requests.collect());
    assert_eq!(crate::support::count(&outcomes, "200"), 10, "{outcomes:?}");
    let last = outcomes.last().expect("the last").0;
    assert!(last < 9.0 * 1.05 + 1.0, "{last}");
}

#[test]
fn a_queue_before_a_distant_store_keeps_its_rate() {
    for (round_trip, rate, limit, processes, each) in [
        (50, "100/SECOND", 100, 1, 400),
        (50, "100/SECOND", 100, 3, 150),
        (150, "20/SECOND", 20, 1, 80),
        (150, "20/SECOND", 20, 2, 40),
    ] {
        let crowd = Crowd::on(7, Some(ms(round_trip)), processes, each, rate);
        crowd.simulation.run();
        let total = processes * each;
        crowd
            .web
            .ledger()
            .no_window_exceeded("a.example", limit, seconds(1))
            .expect("no window is exceeded");
        let ideal = (total - 1) / limit * 1_010;
        // Every permit counts as used until its answer is there, a round trip and more: so it is
        // not the ideal.
        let most = ideal + ideal / 2 + 10 * usize::try_from(round_trip).expect("a short one");
        assert!(
            crowd.last() <= most as u64,
            "{round_trip} ms, {rate}, {processes} processes: {} ms of {ideal}",
            crowd.last()
        );
    }
}
