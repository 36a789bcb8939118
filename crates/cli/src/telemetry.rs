//! Recording a run: where its telemetry goes, and what is said when it cannot.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use docstokg_hub::clock::SystemClock;
use docstokg_hub::config::settings::Settings;
use docstokg_hub::config::{Config, Place};
use docstokg_hub::event::Observer;
use docstokg_hub::stores::{StateStore, private};
use docstokg_telemetry::recorder::Notice;
use docstokg_telemetry::sink::Sink;
use docstokg_telemetry::sink::jsonl::JsonlSink;
use docstokg_telemetry::sink::metrics::{Metrics, MetricsSink};
use docstokg_telemetry::sink::sqlite::SqliteSink;
use docstokg_telemetry::sink::trace::TraceSink;
use docstokg_telemetry::{Recorder, Run, serve};
use parking_lot::Mutex;

use crate::arguments::Global;
use crate::exit::Failure;
use crate::{output, state};

/// A run that is recorded, or not, as config says.
pub(crate) struct Recording {
    pub(crate) run: Arc<Run>,
    recorder: Option<Recorder>,
    quiet: bool,
}

/// Returns where the database of runs is.
pub(crate) fn database(global: &Global, config: &Config) -> Option<PathBuf> {
    match &config.telemetry.sqlite {
        Place::Usual => Some(state::directory(global).join("telemetry.sqlite3")),
        Place::File(path) => Some(path.clone()),
        Place::Off => None,
    }
}

/// Begins to record a run. A place that cannot be written keeps nobody from running; a metrics
/// address that cannot be listened on is a mistake in the command.
pub(crate) fn begin(
    global: &Global,
    command: &str,
    config: &Config,
    settings: &Settings,
    store: &Arc<dyn StateStore>,
) -> Result<Recording, Failure> {
    let clock = Arc::new(SystemClock);
    let run = Arc::new(Run::begin(command, settings, &*clock));
    let quiet = global.quiet;
    let without = Recording {
        run: Arc::clone(&run),
        recorder: None,
        quiet,
    };
    if !config.telemetry.enabled && global.metrics.is_none() {
        return Ok(without);
    }
    let notice: Notice = Arc::new(move |text| tell(quiet, text));
    let config = Arc::new(config.clone());
    let mut sinks: Vec<Box<dyn Sink>> = vec![Box::new(TraceSink)];
    if let Some(path) = database(global, &config).filter(|_| config.telemetry.enabled) {
        if let Some(directory) = path.parent() {
            // If it cannot be made, opening the file says so.
            let _ = private::make_directory(directory);
        }
        match SqliteSink::open(
            &path,
            Arc::clone(&run),
            config.telemetry.keep,
            clock.clone(),
        ) {
            Ok(sink) => sinks.push(Box::new(sink)),
            Err(error) => tell(quiet, &format!("this run is not recorded: {error}")),
        }
    }
    if let Some(path) = config
        .telemetry
        .jsonl
        .as_ref()
        .filter(|_| config.telemetry.enabled)
    {
        match JsonlSink::open(path, Arc::clone(&run), Arc::clone(&config)) {
            Ok(sink) => sinks.push(Box::new(sink)),
            Err(error) => tell(
                quiet,
                &format!(
                    "events are not written: {} cannot be opened: {error}",
                    path.display()
                ),
            ),
        }
    }
    if global.metrics.is_some() || config.telemetry.textfile.is_some() {
        let metrics = Arc::new(Mutex::new(Metrics::new(Arc::clone(&run), &config, clock)));
        metrics.lock().watch_store(Arc::clone(store));
        if let Some(text) = &global.metrics {
            listen(text, &metrics, quiet)?;
        }
        sinks.push(Box::new(MetricsSink::new(
            metrics,
            config.telemetry.textfile.clone(),
        )));
    }
    match Recorder::start(run, config, sinks, notice) {
        Ok(recorder) => Ok(Recording {
            recorder: Some(recorder),
            ..without
        }),
        Err(error) => {
            tell(
                quiet,
                &format!("this run is not recorded: no thread for it: {error}"),
            );
            Ok(without)
        }
    }
}

fn listen(text: &str, metrics: &Arc<Mutex<Metrics>>, quiet: bool) -> Result<(), Failure> {
    let text = if text.starts_with(':') {
        format!("127.0.0.1{text}")
    } else {
        text.to_owned()
    };
    let address: SocketAddr = text.parse().map_err(|_| {
        Failure::Usage(format!(
            "--metrics: '{text}' is not an address and port such as 127.0.0.1:9464"
        ))
    })?;
    let bound = serve::serve(address, Arc::clone(metrics)).map_err(|error| {
        Failure::Usage(format!(
            "--metrics: {address} cannot be listened on: {error}"
        ))
    })?;
    tell(quiet, &format!("metrics at http://{bound}/metrics"));
    if !bound.ip().is_loopback() {
        tell(
            quiet,
            "warning: the metrics, with the hosts of this run, can be read by everyone who reaches that address",
        );
    }
    Ok(())
}

fn tell(quiet: bool, text: &str) {
    if !quiet {
        output::tell(&format!("docstokg: {text}"));
    }
}

impl Recording {
    /// Returns what watches the hub, if the run is recorded.
    pub(crate) fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.recorder.as_ref().map(Recorder::observer)
    }

    /// Writes what is left, and says what was lost.
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
