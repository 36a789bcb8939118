//! Limits that are learned: several processes that share a store search once, and share what was
//! found.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use docstokg_hub::clock::{Clock, Random};
use docstokg_hub::config::Config;
use docstokg_hub::config::load::{ConfigSources, load};
use docstokg_hub::policy::pacing::Pacing;
use docstokg_hub::stores::StateStore;
use docstokg_hub::{Host, Hub, RateWait};
use docstokg_origin_sim::{OriginScript, SimTransport, SimulatedWeb, Simulation, Throttle};

use crate::support::{get, ms, seconds};

const PROCESSES: usize = 10;
/// What the host admits per second, which it states nowhere.
const QUOTA: usize = 20;
/// How many requests are compared.
const PERMITS: usize = 600;

fn config(learn: &str) -> Config {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("c.yaml");
    let yaml = format!(
        "version: 1\nlimits: {{ learn: {learn}, defaults: {{ metadata: {{ max_concurrent: 10 }} }} }}\n"
    );
    std::fs::write(&file, yaml).expect("a file");
    let sources = ConfigSources {
        file: Some(file),
        ..ConfigSources::default()
    };
    let (mut config, _) = load(&sources).unwrap_or_else(|problems| panic!("{problems}"));
    config.limits.pacing = Pacing::Even;
    config
}

fn hub(simulation: &Simulation, web: &SimulatedWeb, store: &Arc<dyn StateStore>, seed: u64) -> Hub {
    Hub::builder(config("{ up_to: 50/SECOND }"))
        .runtime(simulation.runtime())
        .store(Arc::clone(store))
        .random(Random::seeded(seed))
        .transport(SimTransport::new(simulation, web))
        .build()
        .expect("a hub")
}

/// Sends requests, a few at a time, until there were enough in all processes.
fn keep_busy(simulation: &Simulation, hub: &Hub, process: usize, served: &Arc<AtomicUsize>) {
    for task in 0..4 {
        let (hub, served) = (hub.clone(), Arc::clone(served));
        simulation.start(async move {
            for number in 0.. {
                if served.load(Ordering::Relaxed) >= PERMITS {
                    return;
                }
                let url = format!("http://a.example/{process}/{task}/{number}");
                let request = get(&url)
                    .rate_wait(RateWait::Deadline)
                    .deadline(seconds(3_600));
                if let Ok(answer) = hub.fetch(request).await
                    && answer.head.status == 200
                {
                    served.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
}

#[test]
fn ten_processes_search_once_and_share_a_hidden_quota_equally() {
    let simulation = Simulation::new();
    let origin = OriginScript::new("a.example")
        .limit(&format!("{QUOTA}/SECOND"))
        .throttle(Throttle::Silent)
        .latency(ms(50));
    let web = SimulatedWeb::new([origin], simulation.boot());
    let store = simulation.shared_store();
    let served = Arc::new(AtomicUsize::new(0));
    let hubs: Vec<Hub> = (0..PROCESSES)
        .map(|process| hub(&simulation, &web, &store, process as u64))
        .collect();
    for (process, hub) in hubs.iter().enumerate() {
        keep_busy(&simulation, hub, process, &served);
    }
    simulation.run_for(seconds(120));
    let arrivals = web.ledger().at("a.example");
    let permits: Vec<_> = arrivals
        .iter()
        .filter(|arrival| arrival.status == 200)
        .take(PERMITS)
        .collect();
    assert_eq!(permits.len(), PERMITS, "{:?}", web.ledger().statuses());
    let mut shares = [0_usize; PROCESSES];
    for arrival in &permits {
        let process = arrival.path.split('/').nth(1).expect("a process");
        shares[process.parse::<usize>().expect("a number")] += 1;
    }
    let refused = arrivals.iter().filter(|arrival| arrival.status == 429);
    let refused = refused.count();
    // A quota that is found is used: 600 at 20 per second take 30 s.
    let took = permits[PERMITS - 1].at.since(permits[0].at);
    assert!(took <= seconds(55), "{took:?}, {refused} refused");
    let host = Host::parse("a.example").expect("a host");
    let (first, last) = (hubs[0].clone(), hubs[PROCESSES - 1].clone());
    let views = simulation.block_on(async move {
        let (first, last) = (first.view(&host).await, last.view(&host).await);
        (first.expect("a view"), last.expect("a view"))
    });
    assert!(views.0.site.learned().is_some(), "it learned");
    assert_eq!(views.0.site.learned(), views.1.site.learned());
    assert!(
        refused <= 25,
        "ten searches would be refused more: {refused}"
    );
    let fair = PERMITS / PROCESSES;
    for share in shares {
        assert!(share.abs_diff(fair) * 10 <= fair, "{shares:?}");
    }
}
