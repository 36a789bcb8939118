//! The record of a run: the destinations of its telemetry, and the messages about their failures.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use docstokg_bulk::run_snapshot::RunSnapshot;
use docstokg_hub::clock::SystemClock;
use docstokg_hub::event::Observer;
use docstokg_hub::stores::{StateStore, private};
use docstokg_telemetry::config::{Destination, TelemetryConfig};
use docstokg_telemetry::recorder::LossNotice;
use docstokg_telemetry::sink::Sink;
use docstokg_telemetry::sink::jsonl::JsonlSink;
use docstokg_telemetry::sink::metrics::{Metrics, MetricsSink};
use docstokg_telemetry::sink::sqlite::SqliteSink;
use docstokg_telemetry::sink::trace::TraceSink;
use docstokg_telemetry::{Recorder, RunIdentity, metrics_server};
use parking_lot::Mutex;

use crate::arguments::GlobalArguments;
use crate::configuration::LoadedConfig;
use crate::exit::CommandFailure;
use crate::{output, state};

/// A run, with its recorder if telemetry is on.
pub(crate) struct RunRecording {
    pub(crate) run: Arc<RunIdentity>,
    /// The metrics, if they have a reader.
    pub(crate) metrics: Option<Arc<Mutex<Metrics>>>,
    recorder: Option<Recorder>,
    quiet: bool,
}

/// The reader of a run's metrics, in addition to the configuration and `--metrics`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricsReader {
    /// No further reader.
    None,
    /// The program, which serves the metrics itself.
    Program,
}

/// Returns the path of the database of runs.
pub(crate) fn database(
    global: &GlobalArguments,
    telemetry: &TelemetryConfig,
) -> Result<Option<PathBuf>, CommandFailure> {
    Ok(match &telemetry.sqlite {
        Destination::StateDirectory => Some(state::directory(global)?.join("telemetry.sqlite3")),
        Destination::File(path) => Some(path.clone()),
        Destination::Off => None,
    })
}

/// Returns the path of the database with the latest run of a download's directory, which the
/// [`RunSnapshot`] of that run names; otherwise that of the state directory. A state directory that
/// is named comes first.
pub(crate) fn database_of(
    global: &GlobalArguments,
    telemetry: &TelemetryConfig,
    directory: Option<&Path>,
) -> Result<Option<PathBuf>, CommandFailure> {
    let known = directory.filter(|_| global.state_dir.is_none());
    let known = known.and_then(|path| RunSnapshot::read(path)?.telemetry);
    match known.filter(|path| path.exists()) {
        Some(path) => Ok(Some(path)),
        None => database(global, telemetry),
    }
}

/// Begins the record of a run. A destination that cannot be written does not prevent the run. A
/// metrics address that cannot be bound is an error of the command.
pub(crate) fn begin(
    global: &GlobalArguments,
    command: &str,
    loaded: &LoadedConfig,
    store: &Arc<dyn StateStore>,
    reader: MetricsReader,
) -> Result<RunRecording, CommandFailure> {
    let run = Arc::new(RunIdentity::begin(command, &loaded.settings, &SystemClock));
    let mut recording = RunRecording {
        run: Arc::clone(&run),
        metrics: None,
        recorder: None,
        quiet: global.quiet,
    };
    let telemetry = &loaded.telemetry;
    if !telemetry.enabled && global.metrics.is_none() {
        return Ok(recording);
    }
    let config = Arc::new(loaded.config.clone());
    let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(TraceSink)];
    if telemetry.enabled {
        sinks.extend(database_sink(global, &run, telemetry));
        sinks.extend(jsonl_sink(global, &run, telemetry));
    }
    let textfile = loaded.telemetry.textfile.clone();
    if global.metrics.is_some() || textfile.is_some() || reader == MetricsReader::Program {
        let metrics = metrics(&run, loaded, store);
        if let Some(address) = &global.metrics {
            listen(address, &metrics, global.quiet)?;
        }
        sinks.push(Box::new(MetricsSink::new(Arc::clone(&metrics), textfile)));
        recording.metrics = Some(metrics);
    }
    let quiet = global.quiet;
    let notice: LossNotice = Arc::new(move |text| tell(quiet, text));
    match Recorder::start(run, config, telemetry, sinks, notice) {
        Ok(recorder) => recording.recorder = Some(recorder),
        Err(error) => tell(
            quiet,
            &format!("this run is not recorded: its thread cannot be started: {error}"),
        ),
    }
    Ok(recording)
}

fn database_sink(
    global: &GlobalArguments,
    run: &Arc<RunIdentity>,
    telemetry: &TelemetryConfig,
) -> Option<Box<dyn Sink>> {
    let path = database(global, telemetry).ok().flatten()?;
    if let Some(directory) = path.parent() {
        // If the directory cannot be created, opening the file reports the reason.
        let _ = private::make_directory(directory);
    }
    let keep = telemetry.keep;
    match SqliteSink::open(&path, Arc::clone(run), keep, Arc::new(SystemClock)) {
        Ok(sink) => Some(Box::new(sink)),
        Err(error) => {
            let message = format!("this run is not recorded: {error}");
            tell(global.quiet, &message);
            None
        }
    }
}

fn jsonl_sink(
    global: &GlobalArguments,
    run: &Arc<RunIdentity>,
    telemetry: &TelemetryConfig,
) -> Option<Box<dyn Sink>> {
    let path = telemetry.jsonl.as_ref()?;
    match JsonlSink::open(path, Arc::clone(run), telemetry) {
        Ok(sink) => Some(Box::new(sink)),
        Err(error) => {
            let path = path.display();
            let message = format!("events are not written: {path} cannot be opened: {error}");
            tell(global.quiet, &message);
            None
        }
    }
}

fn metrics(
    run: &Arc<RunIdentity>,
    loaded: &LoadedConfig,
    store: &Arc<dyn StateStore>,
) -> Arc<Mutex<Metrics>> {
    let mut metrics = Metrics::new(Arc::clone(run), &loaded.config, Arc::new(SystemClock));
    metrics.watch_store(Arc::clone(store));
    Arc::new(Mutex::new(metrics))
}

fn listen(text: &str, metrics: &Arc<Mutex<Metrics>>, quiet: bool) -> Result<(), CommandFailure> {
    let text = if text.starts_with(':') {
        format!("127.0.0.1{text}")
    } else {
        text.to_owned()
    };
    let address: SocketAddr = text.parse().map_err(|_| {
        CommandFailure::Usage(format!(
            "--metrics: '{text}' is not an address and port such as 127.0.0.1:9464"
        ))
    })?;
    let bound = metrics_server::serve(address, Arc::clone(metrics)).map_err(|error| {
        CommandFailure::Usage(format!(
            "--metrics: {address} cannot be listened on: {error}"
        ))
    })?;
    tell(quiet, &format!("metrics at http://{bound}/metrics"));
    if !bound.ip().is_loopback() {
        tell(
            quiet,
            "warning: everyone who can reach that address can read the metrics, \
             with the hosts of this run",
        );
    }
    Ok(())
}

fn tell(quiet: bool, text: &str) {
    if !quiet {
        output::print_note(text);
    }
}

impl RunRecording {
    /// Returns the [`Observer`] to register with the hub, if the run is recorded.
    pub(crate) fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.recorder.as_ref().map(Recorder::observer)
    }

    /// Writes the remaining records, and reports lost records.
    pub(crate) fn close(self) {
        let Some(recorder) = self.recorder else {
            return;
        };
        let outcome = recorder.close();
        let mut parts: Vec<String> = outcome
            .lost
            .iter()
            .map(|(sink, lost)| format!("{lost} records by {sink}"))
            .collect();
        if outcome.dropped > 0 {
            parts.push(format!(
                "{} events because they came faster than they could be written",
                outcome.dropped
            ));
        }
        if !parts.is_empty() {
            tell(
                self.quiet,
                &format!(
                    "telemetry of this run is not complete: lost {}",
                    parts.join(", ")
                ),
            );
        }
    }
}
