//! Metrics in Prometheus' text format, for a Prometheus server or for the textfile collector.
//!
//! Configured hosts have their own labels. So has a limited number of other hosts: the first ones
//! at once, later ones when they are busy. The rest share the label `other`, so that a run over a
//! hundred thousand hosts does not create as many time series.

mod catalogue;
mod count;
mod render;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::Host;
use docstokg_hub::clock::{Clock, Timestamp};
use docstokg_hub::config::{BreakersConfig, Config};
use docstokg_hub::files::write_whole;
use docstokg_hub::stores::StateStore;
use parking_lot::Mutex;

use super::{Sink, WriteFailure};
use crate::record::TimedRecord;
use crate::run::RunIdentity;
use catalogue::Metric;
use render::labels;

/// Upper bounds of histogram buckets in seconds, up to ten minutes.
const SECONDS_BUCKETS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];
/// Upper bounds of histogram buckets in milliseconds, up to ten minutes.
const MILLIS_BUCKETS: &[f64] = &[
    1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0, 10_000.0, 30_000.0,
    60_000.0, 300_000.0, 600_000.0,
];
/// Upper bounds of histogram buckets in bytes, up to a gibibyte.
const BYTES_BUCKETS: &[f64] = &[
    1_024.0,
    16_384.0,
    131_072.0,
    1_048_576.0,
    8_388_608.0,
    67_108_864.0,
    1_073_741_824.0,
];
/// Maximum number of hosts without configuration that have their own label.
const MAX_LABELLED_HOSTS: usize = 50;
/// Maximum number of hosts whose records are counted, to find busy ones. At that number, the counts
/// are cleared.
const MAX_SEEN_HOSTS: usize = 16_384;
/// Number of records after which a host is busy.
const BUSY_RECORDS: u32 = 10;
/// The interval at which the textfile is written.
const TEXTFILE_INTERVAL: Duration = Duration::from_secs(15);

/// Counters, gauges and `Histogram`s of a run.
pub struct Metrics {
    run: Arc<RunIdentity>,
    clock: Arc<dyn Clock>,
    configured: HashSet<Host>,
    seen: HashMap<Host, u32>,
    busy: HashSet<Host>,
    values: BTreeMap<(Metric, String), f64>,
    histograms: BTreeMap<(Metric, String), Histogram>,
    open_until: BTreeMap<String, Timestamp>,
    breakers: BreakersConfig,
    store: Option<Arc<dyn StateStore>>,
}

struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
    count: u64,
}

impl Metrics {
    /// Creates metrics with zero counts.
    #[must_use]
    pub fn new(run: Arc<RunIdentity>, config: &Config, clock: Arc<dyn Clock>) -> Self {
        let configured = config
            .limits
            .hosts
            .keys()
            .chain(config.breakers.hosts.keys())
            .cloned()
            .collect();
        let mut metrics = Self {
            run,
            clock,
            configured,
            seen: HashMap::new(),
            busy: HashSet::new(),
            values: BTreeMap::new(),
            histograms: BTreeMap::new(),
            open_until: BTreeMap::new(),
            breakers: config.breakers.clone(),
            store: None,
        };
        let info = labels(&[
            ("run_id", &metrics.run.id),
            ("config_hash", &metrics.run.config_hash),
            ("command", &metrics.run.command),
            ("version", env!("CARGO_PKG_VERSION")),
        ]);
        metrics.set(Metric::Info, info, 1.0);
        metrics.set(Metric::Dropped, String::new(), 0.0);
        metrics.set(Metric::Active, String::new(), 0.0);
        metrics
    }

    /// Adds a metric that shows whether `store`, with the limits and breakers, is available.
    pub fn watch_store(&mut self, store: Arc<dyn StateStore>) {
        self.store = Some(store);
    }

    fn add(&mut self, metric: Metric, labels: String, amount: f64) {
        *self.values.entry((metric, labels)).or_default() += amount;
    }

    fn set(&mut self, metric: Metric, labels: String, value: f64) {
        self.values.insert((metric, labels), value);
    }

    fn observe(&mut self, metric: Metric, bounds: &'static [f64], labels: String, value: f64) {
        let empty = || Histogram {
            bounds,
            counts: vec![0; bounds.len()],
            sum: 0.0,
            count: 0,
        };
        let histogram = self
            .histograms
            .entry((metric, labels))
            .or_insert_with(empty);
        if let Some(bucket) = bounds.iter().position(|bound| value <= *bound) {
            histogram.counts[bucket] += 1;
        }
        histogram.sum += value;
        histogram.count += 1;
    }

    /// Returns the label of a host: its name, or `other`.
    fn label(&mut self, host: &Host) -> String {
        if self.configured.contains(host) || self.busy.contains(host) {
            return host.to_string();
        }
        if self.busy.len() < MAX_LABELLED_HOSTS {
            if self.seen.len() >= MAX_SEEN_HOSTS {
                self.seen.clear();
            }
            let seen = self.seen.entry(host.clone()).or_default();
            *seen += 1;
            // The first half of the labels is assigned at once, so that a small run shows all its
            // hosts. The other half is for hosts that become busy later.
            if *seen >= BUSY_RECORDS || self.busy.len() < MAX_LABELLED_HOSTS / 2 {
                self.seen.remove(host);
                self.busy.insert(host.clone());
                return host.to_string();
            }
        }
        "other".to_owned()
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes of bodies fit")]
fn float(bytes: u64) -> f64 {
    bytes as f64
}

/// A [`Sink`] that counts records in [`Metrics`], and writes the textfile if one is configured.
pub struct MetricsSink {
    metrics: Arc<Mutex<Metrics>>,
    textfile: Option<PathBuf>,
    written: Option<Timestamp>,
}

impl MetricsSink {
    /// Creates a sink that counts into `metrics`.
    #[must_use]
    pub fn new(metrics: Arc<Mutex<Metrics>>, textfile: Option<PathBuf>) -> Self {
        Self {
            metrics,
            textfile,
            written: None,
        }
    }

    fn write_file(&mut self) -> Result<(), WriteFailure> {
        let Some(path) = &self.textfile else {
            return Ok(());
        };
        let text = {
            let metrics = self.metrics.lock();
            self.written = Some(metrics.clock.wall());
            metrics.text()
        };
        write_whole(path, &text).map_err(|error| WriteFailure {
            lost: 1,
            why: format!("{} cannot be written: {error}", path.display()),
        })
    }
}

impl Sink for MetricsSink {
    fn name(&self) -> &'static str {
        "prometheus"
    }

    fn write(
        &mut self,
        batch: &[TimedRecord],
        active: usize,
        dropped: u64,
    ) -> Result<(), WriteFailure> {
        let due = {
            let mut metrics = self.metrics.lock();
            for stamped in batch {
                metrics.take(stamped);
            }
            metrics.set(Metric::Active, String::new(), float(active as u64));
            metrics.set(Metric::Dropped, String::new(), float(dropped));
            let now = metrics.clock.wall();
            self.written
                .is_none_or(|written| now >= written + TEXTFILE_INTERVAL)
        };
        if due { self.write_file() } else { Ok(()) }
    }

    fn close(&mut self, _: u64) -> Result<(), WriteFailure> {
        self.write_file()
    }
}
