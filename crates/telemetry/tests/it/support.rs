use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::{Clock, Random};
use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::config::load::{ConfigSources, load};
use docstokg_hub::stores::StateStore;
use docstokg_hub::{Hub, RateWait, Request};
use docstokg_origin_sim::{OriginScript, SimTransport, SimulatedWeb, Simulation};
use docstokg_telemetry::config::TelemetryConfig;
use docstokg_telemetry::recorder::RecordingLoss;
use docstokg_telemetry::sink::Sink;
use docstokg_telemetry::sink::jsonl::JsonlSink;
use docstokg_telemetry::sink::metrics::{Metrics, MetricsSink};
use docstokg_telemetry::sink::sqlite::{SqliteSink, open_to_read};
use docstokg_telemetry::summary::{self, RunChoice, RunSummary};
use docstokg_telemetry::{Recorder, RunIdentity};
use parking_lot::Mutex;
use tempfile::TempDir;

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A request that waits for the rate as long as its host's policy says.
pub(crate) fn get(url: &str) -> Request {
    Request::get(url.parse().expect("a URL")).rate_wait(RateWait::Policy)
}

/// A hub under simulated time whose run is recorded by every sink there is.
pub(crate) struct World {
    pub(crate) simulation: Simulation,
    store: Arc<dyn StateStore>,
    pub(crate) web: SimulatedWeb,
    pub(crate) hub: Hub,
    pub(crate) directory: TempDir,
    pub(crate) run: Arc<RunIdentity>,
    pub(crate) metrics: Arc<Mutex<Metrics>>,
    recorder: Recorder,
}

impl World {
    pub(crate) fn new(
        origins: impl IntoIterator<Item = OriginScript>,
        flags: CommandLineFlags,
    ) -> Self {
        let simulation = Simulation::new();
        let store = simulation.store();
        Self::on(simulation, store, origins, flags)
    }

    /// A world whose store other processes share.
    pub(crate) fn sharing(
        origins: impl IntoIterator<Item = OriginScript>,
        flags: CommandLineFlags,
    ) -> Self {
        let simulation = Simulation::new();
        let store = simulation.shared_store();
        Self::on(simulation, store, origins, flags)
    }

    /// Another process in this world, with origins of its own.
    pub(crate) fn beside(
        &self,
        origins: impl IntoIterator<Item = OriginScript>,
        flags: CommandLineFlags,
    ) -> Self {
        let store = Arc::clone(&self.store);
        Self::on(self.simulation.clone(), store, origins, flags)
    }

    /// A world in which everything wakes at the exact instant.
    pub(crate) fn exact(
        origins: impl IntoIterator<Item = OriginScript>,
        flags: CommandLineFlags,
    ) -> Self {
        let simulation = Simulation::exact();
        let store = simulation.store();
        Self::on(simulation, store, origins, flags)
    }

    fn on(
        simulation: Simulation,
        store: Arc<dyn StateStore>,
        origins: impl IntoIterator<Item = OriginScript>,
        flags: CommandLineFlags,
    ) -> Self {
        let directory = TempDir::new().expect("a directory");
        let web = SimulatedWeb::new(origins, simulation.boot());
        let (config, settings) = load(&ConfigSources {
            caches: true,
            flags,
            ..ConfigSources::default()
        })
        .expect("a configuration");
        let (shared, clock) = (Arc::new(config.clone()), Arc::new(simulation.clone()));
        let run = Arc::new(RunIdentity::begin("test", &settings, &simulation));
        let metrics = Arc::new(Mutex::new(Metrics::new(
            Arc::clone(&run),
            &config,
            clock.clone(),
        )));
        let path = |name: &str| directory.path().join(name);
        let sqlite = SqliteSink::open(&path("telemetry.sqlite3"), Arc::clone(&run), None, clock);
        let telemetry = TelemetryConfig::default();
        let jsonl = JsonlSink::open(&path("events.jsonl"), Arc::clone(&run), &telemetry);
        let textfile = Some(path("metrics.prom"));
        let sinks: Vec<Box<dyn Sink>> = vec![
            Box::new(sqlite.expect("a database")),
            Box::new(jsonl.expect("a file")),
            Box::new(MetricsSink::new(Arc::clone(&metrics), textfile)),
        ];
        let recorder = Recorder::start(
            Arc::clone(&run),
            shared,
            &telemetry,
            sinks,
            Arc::new(|_: &str| {}),
        )
        .expect("a recorder");
        metrics.lock().watch_store(Arc::clone(&store));
        let hub = Hub::builder(config)
            .runtime(simulation.runtime())
            .store(Arc::clone(&store))
            .random(Random::seeded(7))
            .transport(SimTransport::new(&simulation, &web))
            .observer(recorder.observer())
            .build()
            .expect("a hub");
        Self {
            simulation,
            store,
            web,
            hub,
            directory,
            run,
            metrics,
            recorder,
        }
    }

    pub(crate) fn fetch(&self, request: Request) {
        let hub = self.hub.clone();
        let _ = self
            .simulation
            .block_on(async move { hub.fetch(request).await });
    }

    pub(crate) fn fetch_all(&self, requests: Vec<Request>) {
        for request in requests {
            let hub = self.hub.clone();
            self.simulation.start(async move {
                let _ = hub.fetch(request).await;
            });
        }
        self.simulation.run();
    }

    /// Ends the run and keeps what it left.
    pub(crate) fn end(self) -> Ended {
        drop(self.hub);
        let recorded = self.recorder.close();
        Ended {
            directory: self.directory,
            web: self.web,
            run: self.run,
            metrics: self.metrics,
            recorded,
        }
    }
}

/// A run that is over.
pub(crate) struct Ended {
    pub(crate) directory: TempDir,
    pub(crate) web: SimulatedWeb,
    pub(crate) run: Arc<RunIdentity>,
    pub(crate) metrics: Arc<Mutex<Metrics>>,
    pub(crate) recorded: RecordingLoss,
}

impl Ended {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn summary(&self) -> RunSummary {
        let database = open_to_read(&self.path("telemetry.sqlite3")).expect("a database");
        summary::load(&database, &RunChoice::Latest).expect("a summary")
    }

    /// The lines of JSON, without the fields that differ between runs.
    pub(crate) fn story(&self) -> String {
        let text = std::fs::read_to_string(self.path("events.jsonl")).expect("lines");
        let start = self.run.started;
        let mut story = String::new();
        for line in text.lines() {
            let mut event: serde_json::Map<String, serde_json::Value> =
                serde_json::from_str(line).expect("JSON");
            assert_eq!(
                event.remove("run_id").expect("every event has its run"),
                self.run.id.as_str()
            );
            assert_eq!(
                event.remove("config_hash").expect("and its configuration"),
                self.run.config_hash.as_str()
            );
            let ts = event.remove("ts").expect("and its time");
            let name = event.remove("event").expect("and its name");
            event.retain(|_, value| !value.is_null());
            let fields = serde_json::Value::Object(event).to_string();
            let after = ts
                .as_str()
                .expect("text")
                .get(11..23)
                .expect("a time")
                .to_owned();
            story.push_str(&format!(
                "{after} {} {fields}\n",
                name.as_str().expect("text")
            ));
        }
        assert!(start.to_string().contains(':'));
        story
    }
}
