//! Whole runs under simulated time.

use std::sync::Arc;
use std::time::Duration;

use docstokg_bulk::directory::{Directory, UnfinishedFiles};
use docstokg_bulk::progress::RunProgress;
use docstokg_bulk::queue::CommitMode;
use docstokg_bulk::run_context::RunContext;
use docstokg_bulk::scheduler::{RunBounds, RunEnd, RunMode, Scheduler};
use docstokg_hub::Hub;
use docstokg_hub::clock::{Clock as _, Random};
use docstokg_hub::config::Config;
use docstokg_hub::config::load::{ConfigSources, load};
use docstokg_hub::stores::StateStore;
use docstokg_origin_sim::{OriginScript, ScriptedReply, SimTransport, SimulatedWeb, Simulation};
use tempfile::TempDir;

use crate::page_job::{Pages, Urls};

struct RunsWorld {
    simulation: Simulation,
    web: SimulatedWeb,
    config: Config,
    /// What the host has permitted outlives a run.
    store: Arc<dyn StateStore>,
    out: TempDir,
}

impl RunsWorld {
    fn new(origins: Vec<OriginScript>, yaml: &str) -> Self {
        let simulation = Simulation::new();
        let out = TempDir::new().unwrap();
        let file = out.path().join("c.yaml");
        std::fs::write(&file, format!("version: 1\n{yaml}")).unwrap();
        let sources = ConfigSources {
            file: Some(file),
            ..ConfigSources::default()
        };
        let (config, _) = load(&sources).unwrap_or_else(|problems| panic!("{problems}\n{yaml}"));
        Self {
            web: SimulatedWeb::new(origins, simulation.boot()),
            store: simulation.store(),
            simulation,
            config,
            out,
        }
    }

    /// Runs until the end, or until `cancel_at` has passed.
    fn run(&self, urls: Vec<String>, cancel_at: Option<Duration>) -> (RunEnd, Arc<RunProgress>) {
        let hub = Hub::builder(self.config.clone())
            .runtime(self.simulation.runtime())
            .store(Arc::clone(&self.store))
            .random(Random::seeded(5))
            .transport(SimTransport::new(&self.simulation, &self.web))
            .build()
            .unwrap();
        let directory = Directory::open(self.out.path(), CommitMode::Inline, &[]).unwrap();
        let progress = Arc::new(RunProgress::default());
        let runtime = self.simulation.runtime();
        if let Some(after) = cancel_at {
            let (simulation, progress) = (self.simulation.clone(), Arc::clone(&progress));
            self.simulation.start(async move {
                simulation.sleep(after).await;
                progress.cancel();
            });
        }
        let shown = Arc::clone(&progress);
        let ended = self.simulation.block_on(async move {
            let context = RunContext::begin(&hub, runtime, &directory, &progress, "run")
                .await
                .unwrap();
            let scheduler = Arc::new(Scheduler {
                job: Arc::new(Pages {
                    context: context.clone(),
                }),
                context,
                limits: RunBounds {
                    workers: 50,
                    max_bytes: None,
                    max_wait: Duration::from_secs(3_600),
                },
                mode: RunMode::Full,
            });
            let urls = urls.into_iter();
            let ended = scheduler.run(Box::new(Urls { hub, urls })).await.unwrap();
            directory.clean_up(UnfinishedFiles::Keep);
            ended
        });
        (ended, shown)
    }

    fn records(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.out.path().join("manifest.jsonl")).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn urls(host: &str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |n| format!("http://{host}/p/{n}"))
}

const LIMITS: &str = "limits: { hosts: { a.example: { metadata: { rates: [\"10/SECOND\"], max_concurrent: 5 } }, b.example: { metadata: { rates: [\"10/SECOND\"], max_concurrent: 5 } } } }\n";

fn origins() -> Vec<OriginScript> {
    ["a.example", "b.example"]
        .map(|host| {
            OriginScript::new(host)
                .limit_under("/p/", "10/SECOND")
                .latency(Duration::from_millis(50))
                .handler(|arrival, _| ScriptedReply::ok(arrival.path.clone()))
        })
        .into()
}

#[test]
fn a_job_that_is_not_about_works_runs_to_its_end_within_the_limits() {
    let world = RunsWorld::new(origins(), LIMITS);
    let all: Vec<String> = urls("a.example", 200)
        .chain(urls("b.example", 200))
        .collect();
    let doubled = all.iter().chain(&all[..5]).cloned().collect();
    let (ended, progress) = world.run(doubled, None);
    assert_eq!(ended, RunEnd::Complete);
    let counters = progress.counters();
    assert_eq!(
        (counters.done, counters.failed, counters.duplicates),
        (400, 0, 5)
    );
    assert_eq!(world.records().len(), 400);
    assert_eq!(world.web.ledger().arrivals().len(), 400);
    assert_eq!(world.web.ledger().statuses().get(&429), None);
    // Two hosts at ten a second, side by side: the last leaves after 19.9 seconds.
    let took = world.simulation.elapsed();
    assert!(took < Duration::from_secs(22), "{took:?}");
}

#[test]
fn a_host_that_asks_to_wait_is_named_and_others_go_on() {
    let paused = origins().remove(1).outage(
        Duration::ZERO..Duration::from_secs(5),
        ScriptedReply::status(503).header("retry-after", "600"),
    );
    let world = RunsWorld::new(vec![origins().remove(0), paused], LIMITS);
    let (ended, progress) = world.run(
        urls("a.example", 20).chain(urls("b.example", 3)).collect(),
        Some(Duration::from_secs(60)),
    );
    assert_eq!(ended, RunEnd::Stopped { left: 3 });
    assert_eq!(progress.counters().done, 20);
    let waiting = progress.waiting();
    assert_eq!(
        (waiting.len(), waiting[0].host.as_str(), waiting[0].items),
        (1, "b.example", 3)
    );
    assert_eq!(waiting[0].why, "the host asked to wait");
    // The next run goes on with what was persisted, and asks no earlier than the host said.
    let (ended, progress) = world.run(Vec::new(), None);
    assert_eq!(ended, RunEnd::Complete);
    let counters = progress.counters();
    assert_eq!(
        (counters.done, counters.failed, counters.already),
        (23, 0, 20)
    );
    world
        .web
        .ledger()
        .nothing_before_retry_after("b.example")
        .unwrap();
    assert!(world.simulation.elapsed() >= Duration::from_secs(600));
}

#[test]
fn cancelled_run_keeps_every_item_and_fetches_no_file_twice() {
    let world = RunsWorld::new(origins(), LIMITS);
    let all: Vec<String> = urls("a.example", 100).collect();
    let (ended, _) = world.run(all, Some(Duration::from_secs(3)));
    let RunEnd::Stopped { left } = ended else {
        panic!("{ended:?}")
    };
    assert!((60..80).contains(&left), "{left}");
    let (ended, progress) = world.run(Vec::new(), None);
    assert_eq!(ended, RunEnd::Complete);
    assert_eq!(progress.counters().done, 100);
    assert_eq!(world.web.ledger().arrivals().len(), 100);
}
