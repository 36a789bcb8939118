//! Metrics in Prometheus' text format: for its server to pull, or as a file for the textfile
//! collector.
//!
//! Hosts that config names have labels of their own; of the others the first busy ones do, and the
//! rest is `other`, so that a run over a hundred thousand hosts does not make as many time series.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::Host;
use docstokg_hub::clock::{Clock, Timestamp};
use docstokg_hub::config::Config;
use docstokg_hub::files::write_whole;
use docstokg_hub::policy::breaker::State;
use docstokg_hub::stores::StateStore;
use parking_lot::Mutex;

use super::jsonl::millis;
use super::{Failed, Sink};
use crate::record::{HttpRecord, RateAction, Record, Stamped, TransitionRecord};
use crate::run::Run;

/// Seconds, up to ten minutes.
const SECONDS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];
/// Milliseconds, up to ten minutes.
const MILLIS: &[f64] = &[
    1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0, 10_000.0, 30_000.0,
    60_000.0, 300_000.0, 600_000.0,
];
/// Bytes, up to a gibibyte.
const BYTES: &[f64] = &[
    1_024.0,
    16_384.0,
    131_072.0,
    1_048_576.0,
    8_388_608.0,
    67_108_864.0,
    1_073_741_824.0,
];
/// How many hosts without an entry in config have labels of their own.
const BUSY_HOSTS: usize = 50;
/// From how many records on a host is busy.
const BUSY: u32 = 10;

/// A metric: its name, its kind, what it is.
struct About {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
}

macro_rules! metrics {
    ($($id:ident = $name:literal, $kind:literal, $help:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        enum Metric { $($id),* }
        const ABOUT: &[(Metric, About)] = &[$((Metric::$id, About { name: $name, kind: $kind, help: $help })),*];
    };
}

metrics! {
    RateDelay = "rate_delay_ms", "histogram", "Time that a request waited for the rate before it was sent, in milliseconds.";
    SlotWait = "rate_concurrency_wait_ms", "histogram", "Time that a request waited for a free slot, in milliseconds.";
    Acquired = "rate_acquired_total", "counter", "Tokens spent.";
    Blocked = "rate_blocked_total", "counter", "Requests refused because the wait would have exceeded max_delay_ms.";
    HeadSkipped = "rate_head_skipped_total", "counter", "HEAD requests that spent no token.";
    HostState = "breaker_host_state", "gauge", "State of a host's breaker: 0 closed, 1 half-open, 2 open.";
    HostCooldown = "breaker_host_cooldown_ms", "gauge", "Time until an open breaker lets a probe through, in milliseconds.";
    ResolverState = "breaker_resolver_state", "gauge", "State of a resolver's breaker: 0 closed, 1 half-open, 2 open.";
    NetworkState = "breaker_network_state", "gauge", "Whether this process can reach a host: 0 it can, 1 it tries, 2 it could not.";
    Recorded = "breaker_recorded_total", "counter", "What breakers were told: success, failure or none.";
    Opens = "breaker_opens_total", "counter", "Opens of breakers, by reason.";
    Denied = "breaker_denied_total", "counter", "Requests that an open breaker kept from being sent.";
    Adapted = "aimd_multiplier", "gauge", "Adaptive multiplier of a host and role.";
    Duration = "http_client_request_duration_seconds", "histogram", "Duration of an attempt, from sending to the end of its body.";
    HeaderTime = "http_client_response_header_duration_seconds", "histogram", "Time from sending to the headers of the answer.";
    BodyTime = "http_client_response_body_duration_seconds", "histogram", "Time from the headers to the end of the body.";
    BodySize = "http_client_response_body_size_bytes", "histogram", "Bytes of a body as they came over the wire.";
    Wasted = "http_client_wasted_bytes_total", "counter", "Bytes of answers that were of no use: throttled, failed or cut.";
    Retries = "http_client_retries_total", "counter", "Attempts after the first.";
    Throttled = "http_client_throttled_total", "counter", "Answers 429 and 503, with or without Retry-After.";
    Requests = "http_client_requests_ended_total", "counter", "Requests that came to their end, by how.";
    Active = "http_client_active_requests", "gauge", "Requests under way, waiting ones included.";
    StoreUnavailable = "limits_store_unavailable", "gauge", "Whether the store of limits and breakers does not answer: 1 while this process goes on with its share of the limits.";
    StoreOutages = "limits_store_outages_total", "counter", "How often the store of limits and breakers stopped answering.";
    Dropped = "telemetry_dropped_total", "counter", "Events that telemetry could not take.";
    Info = "docstokg_run_info", "gauge", "The run: its id and the fingerprint of its configuration.";
}

/// Counters, gauges and histograms of a run.
pub struct Metrics {
    run: Arc<Run>,
    clock: Arc<dyn Clock>,
    configured: HashSet<Host>,
    seen: HashMap<Host, u32>,
    busy: HashSet<Host>,
    values: BTreeMap<(Metric, String), f64>,
    histograms: BTreeMap<(Metric, String), Histogram>,
    open_until: BTreeMap<String, Timestamp>,
    store: Option<Arc<dyn StateStore>>,
}

struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
    count: u64,
}

impl Metrics {
    /// Starts with nothing counted.
    #[must_use]
    pub fn new(run: Arc<Run>, config: &Config, clock: Arc<dyn Clock>) -> Self {
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

    /// Shows whether the store of limits and breakers answers.
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
        if let Some(place) = bounds.iter().position(|bound| value <= *bound) {
            histogram.counts[place] += 1;
        }
        histogram.sum += value;
        histogram.count += 1;
    }

    /// Returns the label of a host: its name, or `other`.
    fn label(&mut self, host: &Host) -> String {
        if self.configured.contains(host) || self.busy.contains(host) {
            return host.to_string();
        }
        if self.busy.len() < BUSY_HOSTS {
            let seen = self.seen.entry(host.clone()).or_default();
            *seen += 1;
            // The first few at once, so that a small run shows its hosts; the other places are for
            // those that turn out busy.
            if *seen >= BUSY || self.busy.len() < BUSY_HOSTS / 2 {
                self.seen.remove(host);
                self.busy.insert(host.clone());
                return host.to_string();
            }
        }
        "other".to_owned()
    }

    fn take(&mut self, stamped: &Stamped) {
        match &stamped.record {
            Record::Http(http) => self.http(http),
            Record::Rate(rate) => {
                let host = self.label(&rate.place.host);
                let both = labels(&[("host", &host), ("role", rate.place.role.as_str())]);
                match rate.action {
                    RateAction::Acquire => self.add(Metric::Acquired, both, f64::from(rate.weight)),
                    RateAction::Block => self.add(Metric::Blocked, both, 1.0),
                    RateAction::HeadSkip => {
                        self.add(Metric::HeadSkipped, labels(&[("host", &host)]), 1.0)
                    }
                    // A counter does not go back; it is rare.
                    RateAction::GivenBack => {}
                }
            }
            Record::Transition(change) => self.transition(stamped.at, change),
            Record::Adjusted(change) => {
                let host = self.label(&change.place.host);
                self.set(
                    Metric::Adapted,
                    labels(&[("host", &host), ("role", change.place.role.as_str())]),
                    change.new,
                );
            }
            Record::End(end) => {
                let host = self.label(&end.place.host);
                let outcome = match (end.error, end.status) {
                    (Some(error), _) => error.to_owned(),
                    (None, Some(status)) if status < 400 => "ok".to_owned(),
                    (None, status) => {
                        status.map_or_else(|| "none".to_owned(), |status| format!("http_{status}"))
                    }
                };
                self.add(
                    Metric::Requests,
                    labels(&[
                        ("host", &host),
                        ("role", end.place.role.as_str()),
                        ("outcome", &outcome),
                    ]),
                    1.0,
                );
            }
            Record::Call(_) | Record::Cooldown(_) | Record::Budget(_) => {}
        }
    }

    fn http(&mut self, http: &HttpRecord) {
        let host = self.label(&http.place.host);
        let both = labels(&[("host", &host), ("role", http.place.role.as_str())]);
        if !http.sent {
            return self.add(Metric::Denied, both, 1.0);
        }
        self.observe(
            Metric::RateDelay,
            MILLIS,
            both.clone(),
            millis(http.rate_delay),
        );
        self.observe(
            Metric::SlotWait,
            MILLIS,
            both.clone(),
            millis(http.slot_wait),
        );
        let status = http.status.map(|status| status.to_string());
        let mut pairs = vec![
            ("http_request_method", http.method.as_str()),
            ("server_address", host.as_str()),
        ];
        pairs.extend(
            status
                .as_deref()
                .map(|status| ("http_response_status_code", status)),
        );
        pairs.extend(http.error.map(|error| ("error_type", error)));
        self.observe(
            Metric::Duration,
            SECONDS,
            labels(&pairs),
            http.elapsed.as_secs_f64(),
        );
        let server = labels(&[("server_address", &host)]);
        if let Some(took) = http.header_time {
            self.observe(
                Metric::HeaderTime,
                SECONDS,
                server.clone(),
                took.as_secs_f64(),
            );
        }
        if let Some(took) = http.body_time {
            self.observe(
                Metric::BodyTime,
                SECONDS,
                server.clone(),
                took.as_secs_f64(),
            );
            self.observe(Metric::BodySize, BYTES, server.clone(), float(http.bytes));
        }
        if http.wasted && http.bytes > 0 {
            self.add(Metric::Wasted, server, float(http.bytes));
        }
        if http.attempt > 1 {
            self.add(Metric::Retries, both, 1.0);
        }
        if let Some(status @ ("429" | "503")) = status.as_deref() {
            let with = if http.retry_after.is_some() {
                "yes"
            } else {
                "no"
            };
            self.add(
                Metric::Throttled,
                labels(&[("host", &host), ("status", status), ("retry_after", with)]),
                1.0,
            );
        }
        self.add(
            Metric::Recorded,
            labels(&[("host", &host), ("outcome", http.breaker_recorded)]),
            1.0,
        );
    }

    fn transition(&mut self, at: Timestamp, change: &TransitionRecord) {
        let state = match change.to {
            State::Closed => 0.0,
            State::HalfOpen => 1.0,
            State::Open => 2.0,
        };
        let name = change
            .key
            .split_once(':')
            .map_or(&*change.key, |(scope, name)| {
                if scope == change.scope {
                    name
                } else {
                    &change.key
                }
            });
        let key = if change.scope == "host" {
            self.label(&change.host)
        } else {
            name.to_owned()
        };
        let (metric, label, opens) = match change.scope {
            "resolver" => (Metric::ResolverState, "resolver", "resolver"),
            "network" => (Metric::NetworkState, "host", "network"),
            _ => (Metric::HostState, "host", "host"),
        };
        self.set(metric, labels(&[(label, &key)]), state);
        if change.to == State::Open {
            let reason = change
                .reason
                .as_deref()
                .map_or("none", |reason| reason.split(':').next().unwrap_or(reason));
            let by = if change.elsewhere {
                "elsewhere"
            } else {
                "this_run"
            };
            self.add(
                Metric::Opens,
                labels(&[(opens, &key), ("reason", reason), ("by", by)]),
                1.0,
            );
        }
        if opens == "host" {
            let until = if change.to == State::Open {
                at + change.reset.unwrap_or_default()
            } else {
                at
            };
            self.open_until.insert(labels(&[("host", &key)]), until);
        }
    }

    /// Writes everything as text.
    #[must_use]
    pub fn text(&self) -> String {
        let now = self.clock.wall();
        let mut text = String::new();
        for (metric, about) in ABOUT {
            let mut lines = String::new();
            let of = |key: &(Metric, String)| key.0 == *metric;
            for ((_, labels), value) in self.values.iter().filter(|(key, _)| of(key)) {
                let _ = writeln!(lines, "{}{} {value}", about.name, braced(labels));
            }
            for ((_, labels), histogram) in self.histograms.iter().filter(|(key, _)| of(key)) {
                histogram.write(about.name, labels, &mut lines);
            }
            if let Some(availability) = self.store.as_ref().map(|store| store.availability()) {
                match metric {
                    Metric::StoreUnavailable => drop(writeln!(
                        lines,
                        "{} {}",
                        about.name,
                        u8::from(availability.unavailable)
                    )),
                    Metric::StoreOutages => {
                        drop(writeln!(lines, "{} {}", about.name, availability.outages))
                    }
                    _ => {}
                }
            }
            if *metric == Metric::HostCooldown {
                for (labels, until) in &self.open_until {
                    let left = u64::try_from(until.micros_after(now)).unwrap_or(0);
                    let _ = writeln!(
                        lines,
                        "{}{} {}",
                        about.name,
                        braced(labels),
                        millis(Duration::from_micros(left))
                    );
                }
            }
            if !lines.is_empty() {
                let _ = write!(
                    text,
                    "# HELP {} {}\n# TYPE {} {}\n{lines}",
                    about.name, about.help, about.name, about.kind
                );
            }
        }
        text
    }

    /// Returns the names of all metrics, whether they have been counted or not.
    #[must_use]
    pub fn names() -> Vec<(&'static str, &'static str)> {
        ABOUT
            .iter()
            .map(|(_, about)| (about.name, about.kind))
            .collect()
    }
}

impl Histogram {
    fn write(&self, name: &str, labels: &str, lines: &mut String) {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut below = 0;
        for (bound, count) in self.bounds.iter().zip(&self.counts) {
            below += count;
            let _ = writeln!(
                lines,
                "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {below}"
            );
        }
        let _ = writeln!(
            lines,
            "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {}",
            self.count
        );
        let _ = writeln!(
            lines,
            "{name}_sum{} {}\n{name}_count{} {}",
            braced(labels),
            self.sum,
            braced(labels),
            self.count
        );
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes of bodies fit")]
fn float(bytes: u64) -> f64 {
    bytes as f64
}

fn braced(labels: &str) -> String {
    if labels.is_empty() {
        String::new()
    } else {
        format!("{{{labels}}}")
    }
}

fn labels(pairs: &[(&str, &str)]) -> String {
    let escaped = |value: &str| {
        value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    pairs
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect::<Vec<_>>()
        .join(",")
}

/// Counts records, and writes the textfile where one is wanted.
pub struct MetricsSink {
    metrics: Arc<Mutex<Metrics>>,
    textfile: Option<PathBuf>,
    written: Option<Timestamp>,
}

impl MetricsSink {
    /// Counts into `metrics`.
    #[must_use]
    pub fn new(metrics: Arc<Mutex<Metrics>>, textfile: Option<PathBuf>) -> Self {
        Self {
            metrics,
            textfile,
            written: None,
        }
    }

    fn write_file(&mut self) -> Result<(), Failed> {
        let Some(path) = &self.textfile else {
            return Ok(());
        };
        let text = {
            let metrics = self.metrics.lock();
            self.written = Some(metrics.clock.wall());
            metrics.text()
        };
        write_whole(path, &text).map_err(|error| Failed {
            lost: 1,
            why: format!("{} cannot be written: {error}", path.display()),
        })
    }
}

impl Sink for MetricsSink {
    fn name(&self) -> &'static str {
        "prometheus"
    }

    fn write(&mut self, batch: &[Stamped], under_way: usize, dropped: u64) -> Result<(), Failed> {
        let due = {
            let mut metrics = self.metrics.lock();
            for stamped in batch {
                metrics.take(stamped);
            }
            metrics.set(Metric::Active, String::new(), float(under_way as u64));
            metrics.set(Metric::Dropped, String::new(), float(dropped));
            let now = metrics.clock.wall();
            self.written
                .is_none_or(|written| now.micros_after(written) >= 15_000_000)
        };
        if due { self.write_file() } else { Ok(()) }
    }

    fn close(&mut self, _: u64) -> Result<(), Failed> {
        self.write_file()
    }
}
