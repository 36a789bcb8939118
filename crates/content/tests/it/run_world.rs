//! A simulated web, a hub and a directory to run in.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use docstokg_bulk::connectivity::Reachability;
use docstokg_bulk::directory::UnfinishedFiles;
use docstokg_bulk::job::BoxFuture;
use docstokg_bulk::progress::RunProgress;
use docstokg_bulk::queue::CommitMode;
use docstokg_bulk::run_context::RunContext;
use docstokg_bulk::scheduler::RunEnd;
use docstokg_content::input::{InputReader, ListFormat};
use docstokg_content::resolver::endpoints;
use docstokg_content::resolver::settings::Settings;
use docstokg_content::run::inputs::WorkInputs;
use docstokg_content::run::{RunOptions, WorksRun, open_directory, report};
use docstokg_content::work::Work;
use docstokg_hub::Hub;
use docstokg_hub::clock::{Clock, Random, Timestamp};
use docstokg_hub::config::load::{ConfigSources, load};
use docstokg_hub::config::{Config, Durability};
use docstokg_hub::policy::classify::Fault;
use docstokg_hub::stores::StateStore;
use docstokg_hub::transport::{OutgoingRequest, Transport};
use docstokg_lookup::credentials::SourceCredentials;
use docstokg_origin_sim::scholarly::WorkLibrary;
use docstokg_origin_sim::{
    FaultyTransport, OriginScript, ScriptedReply, SimTransport, SimulatedWeb, Simulation,
};
use parking_lot::Mutex;
use tempfile::TempDir;
use url::Url;

/// Lines as users write them, bad ones among them.
pub(crate) struct Typed(pub(crate) Option<String>);

impl WorkInputs for Typed {
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<docstokg_content::run::inputs::InputResult>>> {
        let lines = self.0.take().map(|text| {
            InputReader::new(text.as_bytes(), ListFormat::Lines)
                .map(|line| ("typed".into(), line))
                .collect()
        });
        Box::pin(std::future::ready(lines))
    }
}

pub(crate) struct World {
    pub(crate) simulation: Simulation,
    pub(crate) web: SimulatedWeb,
    pub(crate) config: Config,
    settings: Arc<Settings>,
    pub(crate) out: TempDir,
    /// The store of limits, where another process shares it.
    pub(crate) store: Option<Arc<dyn StateStore>>,
    pub(crate) reachability: Option<Arc<dyn Reachability>>,
    /// When this machine has no network, from the beginning of the simulation on.
    pub(crate) outage: Range<Duration>,
    /// A host that serves no https.
    pub(crate) plain_host: Option<&'static str>,
    /// What happens to connections, by URL and time.
    pub(crate) faults: Option<Arc<Faults>>,
    /// When the remaining time of a run is noted, from its begin on.
    pub(crate) noted_at: Vec<Duration>,
    /// What was noted: when, and the remaining time.
    pub(crate) noted: Arc<Mutex<Vec<RemainingNote>>>,
}

/// The fault that a request for a URL meets at a time of the simulation.
pub(crate) type Faults = dyn Fn(&Url, Duration) -> Option<Fault> + Send + Sync;

/// When the remaining time was noted, and the remaining time.
pub(crate) type RemainingNote = (Duration, Option<Duration>);

fn read_config(yaml: &str) -> Config {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("c.yaml");
    std::fs::write(&file, yaml).unwrap();
    let (mut config, _) = load(&ConfigSources {
        file: Some(file),
        ..ConfigSources::default()
    })
    .unwrap_or_else(|problems| panic!("{problems}\n{yaml}"));
    config.transport.durability = Durability::None;
    config
}

impl World {
    pub(crate) fn new(
        origins: Vec<OriginScript>,
        yaml: &str,
        endpoint: impl Fn(&str) -> Option<String>,
    ) -> Self {
        Self::within(Simulation::new(), origins, yaml, endpoint)
    }

    /// Makes a world with its own time.
    pub(crate) fn within(
        simulation: Simulation,
        origins: Vec<OriginScript>,
        yaml: &str,
        endpoint: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let web = SimulatedWeb::new(origins, simulation.boot());
        let mut settings = Settings {
            credentials: SourceCredentials::default().with_mailto("reader@simulated-library.org"),
            ..Settings::default()
        };
        for service in endpoints() {
            if let Some(base) = endpoint(service.key) {
                settings.endpoints.set(service, Url::parse(&base).unwrap());
            }
        }
        Self {
            simulation,
            web,
            config: read_config(yaml),
            settings: Arc::new(settings),
            out: TempDir::new().unwrap(),
            reachability: None,
            outage: Duration::ZERO..Duration::ZERO,
            plain_host: None,
            faults: None,
            store: None,
            noted_at: Vec::new(),
            noted: Arc::default(),
        }
    }

    pub(crate) fn of(library: &WorkLibrary) -> Self {
        Self::new(
            library.origins(),
            &library.client_configuration(),
            |service| library.endpoint(service),
        )
    }

    pub(crate) fn hub(&self) -> Hub {
        let store = self.store.clone();
        Hub::builder(self.config.clone())
            .runtime(self.simulation.runtime())
            .store(store.unwrap_or_else(|| self.simulation.store()))
            .random(Random::seeded(5))
            .transport(self.transport())
            .build()
            .unwrap()
    }

    fn transport(&self) -> Arc<dyn Transport> {
        let simulation = self.simulation.clone();
        let (outage, plain_host) = (self.outage.clone(), self.plain_host);
        let faults = self.faults.clone();
        let fault_of = move |request: &OutgoingRequest| {
            let (now, url) = (simulation.elapsed(), &request.url);
            if outage.contains(&now) {
                return Some(Fault::NoRoute);
            }
            if url.scheme() == "https" && plain_host.is_some() && url.host_str() == plain_host {
                return Some(Fault::Connect);
            }
            faults.as_ref().and_then(|faults| faults(url, now))
        };
        FaultyTransport::new(SimTransport::new(&self.simulation, &self.web), fault_of)
    }

    /// Runs to the end, and returns how it ended and how long it took.
    pub(crate) fn run(
        &self,
        inputs: Box<dyn WorkInputs>,
        change: impl FnOnce(&mut RunOptions),
    ) -> (RunEnd, Duration, Arc<RunProgress>) {
        let hub = self.hub();
        let directory = open_directory(self.out.path(), CommitMode::Inline).unwrap();
        let mut options = RunOptions {
            min_free: 0,
            ..RunOptions::new(self.out.path().to_owned())
        };
        change(&mut options);
        let progress = Arc::new(RunProgress::default());
        let runtime = self.simulation.runtime();
        let reachability = self.reachability.clone();
        let settings = Arc::clone(&self.settings);
        let begun = self.simulation.elapsed();
        for after in self.noted_at.clone() {
            let (simulation, progress) = (self.simulation.clone(), Arc::clone(&progress));
            let noted = Arc::clone(&self.noted);
            self.simulation.start(async move {
                simulation.sleep(after).await;
                let left = progress.remaining_time(simulation.wall());
                noted.lock().push((after, left));
            });
        }
        let watched = Arc::clone(&progress);
        let ended = self.simulation.block_on(async move {
            directory.recover().await.unwrap();
            let context = RunContext::begin(&hub, runtime, &directory, &watched, "run");
            let certain = settings.service_hosts();
            let context = context
                .await
                .unwrap()
                .with_reachability(reachability, certain);
            let run = WorksRun::new(context, settings, options.clone())
                .await
                .unwrap();
            let ended = run.run(inputs).await.unwrap();
            let (queue, counters) = (&directory.queue, watched.counters());
            report(queue, &options, "run", &counters, Timestamp::EPOCH)
                .await
                .unwrap();
            directory.clean_up(UnfinishedFiles::after(&ended));
            ended
        });
        (
            ended,
            self.simulation.elapsed().saturating_sub(begun),
            progress,
        )
    }

    pub(crate) fn records(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.out.path().join("manifest.jsonl")).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// Hosts that give a small PDF for every path.
pub(crate) fn plain_hosts(
    count: usize,
    rate: &str,
    latency: Duration,
) -> (Vec<OriginScript>, String) {
    let mut yaml = String::from("version: 1\nlimits:\n  hosts:\n");
    let origins = (0..count).map(|n| {
        yaml.push_str(&format!("    h{n}.example: {{ artifact: {{ rates: [\"{rate}\"], max_concurrent: 10 }}, landing: {{ rates: [] }} }}\n"));
        OriginScript::new(&format!("h{n}.example")).limit_under("/f/", rate).latency(latency).handler(|arrival, _| pdf(&arrival.path))
    });
    let origins = origins.collect();
    (origins, yaml)
}

pub(crate) fn pdf(name: &str) -> ScriptedReply {
    if name == "/robots.txt" {
        return ScriptedReply::status(404);
    }
    let noted = format!("{name}{}", " ".repeat(1_200));
    ScriptedReply::ok(docstokg_origin_sim::pdf::carrying(noted.as_bytes()))
        .header("content-type", "application/pdf")
}

pub(crate) fn urls(hosts: usize, each: usize) -> Vec<Work> {
    let url = |host: usize, n: usize| format!("http://h{host}.example/f/{n}.pdf");
    // Sorted by host: the order that starves those who queue in order.
    (0..hosts)
        .flat_map(|host| {
            (0..each).map(move |n| {
                Work::new(docstokg_content::identifier::Identifier::parse(&url(host, n)).unwrap())
            })
        })
        .collect()
}
