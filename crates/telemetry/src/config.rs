//! The `telemetry` section: the recorded data, and their destinations.
//!
//! Also the targets under `telemetry.slo` that `docstokg summary --slo` compares a run with.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use docstokg_config::node::ConfigValue;
use docstokg_config::{
    ConfigNode, ConfigProblem, ConfigProblems, Section, Setting, SourcedValue, read, read_file,
    section,
};
use serde_json::{Value as Json, json};

section! {
    /// Targets of a run, for `docstokg summary --slo`.
    SloSettings {
        /// The smallest share of probed opens that a success ends; an outage counts once, however
        /// often it is probed
        success_after_open_min: f64 = 0.5,
        /// The largest ratio of the 95th percentile of the lengths of opens to the breaker's
        /// `reset_timeout_s`, without opens whose length a server or an operator declared
        breaker_block_p95_over_reset_max: f64 = 1,
        /// The largest share of attempts with status 429
        http_429_ratio_max: f64 = 0.05,
        /// The largest share of attempts with status 503
        http_503_ratio_max: f64 = 0.05,
        /// The largest 95th percentile of the time spent waiting for a rate limit, in milliseconds,
        /// on any host and role
        rate_delay_p95_ms_max: f64 => "none",
        /// The most opens per hour of any breaker
        opens_per_hour_max: f64 => "none",
        /// The most events and records of telemetry that may be lost
        telemetry_lost_max: u64 = 0,
    }
}

section! {
    /// Settings of the recording of runs.
    TelemetrySettings {
        /// Switch for the recording of runs
        enabled: bool = true,
        /// The database of all runs: a file, or `off`
        sqlite: OutputFile => "`telemetry.sqlite3` in the state directory",
        /// A file that gets every event as a line of JSON; `off` for none
        jsonl: OutputFile = "off",
        /// The size at which that file is rotated, in MiB
        jsonl_rotate_mb: NonZeroU32 = 64,
        /// Number of rotated files that are kept, at most 1000
        jsonl_keep: u32 = 5,
        /// A file that gets the metrics as Prometheus text, for the textfile collector; `off` for
        /// none
        prometheus_textfile: OutputFile = "off",
        /// Time for which runs stay in the database, in days; 0 keeps them for ever
        keep_days: u32 = 30,
        /// Number of events that may wait to be written; further ones are dropped and counted
        queue: NonZeroU32 = 262_144,
        @slo: SloSettings,
    }
}

/// The path of an output file; `None` for no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputFile(pub Option<PathBuf>);

impl Setting for OutputFile {
    const KIND: &'static str = "file, or off";

    fn read(node: &ConfigNode) -> Result<Self, String> {
        // YAML reads an unquoted `off` as a boolean.
        if matches!(node.value, ConfigValue::Bool(false)) {
            return Ok(Self(None));
        }
        let text = String::read(node)?;
        let is_off = text.eq_ignore_ascii_case("off");
        Ok(Self((!is_off).then(|| text.into())))
    }

    fn schema() -> Json {
        json!({ "oneOf": [{ "type": "string" }, { "const": false }] })
    }

    fn show(&self) -> Json {
        match &self.0 {
            Some(path) => json!(path.display().to_string()),
            None => json!("off"),
        }
    }
}

/// Maximum number of rotated files. The number is limited because each rotation renames all of
/// them.
const MAX_KEPT_FILES: u32 = 1_000;

/// The settings in force, resolved from [`TelemetrySettings`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelemetryConfig {
    /// True if runs are recorded.
    pub enabled: bool,
    /// The [`Destination`] of the database of runs.
    pub sqlite: Destination,
    /// The file that gets every event as a line of JSON; `None` for no file.
    pub jsonl: Option<PathBuf>,
    /// The size at which the file in `jsonl` is rotated, in bytes.
    pub jsonl_rotate: u64,
    /// Number of rotated files that are kept.
    pub jsonl_keep: u32,
    /// The file that gets the metrics as Prometheus text; `None` for no file.
    pub textfile: Option<PathBuf>,
    /// Time for which runs are kept in the database; `None` for ever.
    pub keep: Option<Duration>,
    /// Maximum number of events that wait to be written.
    pub queue: usize,
}

/// The location of the database of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The default file, in the state directory.
    StateDirectory,
    /// A file at this path.
    File(PathBuf),
    /// No database.
    Off,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        TelemetrySettings::default().filled_in()
    }
}

impl TelemetrySettings {
    /// Resolves the written settings into a [`TelemetryConfig`].
    ///
    /// # Errors
    /// Lists every value that cannot be used as written.
    pub fn resolve(&self) -> Result<TelemetryConfig, Vec<ConfigProblem>> {
        let mut problems = Vec::new();
        self.check_files(&mut problems);
        let keep = self.jsonl_keep();
        if keep.value > MAX_KEPT_FILES {
            let message = format!("{} is more than {MAX_KEPT_FILES}", keep.value);
            problems.push(ConfigProblem::new(
                &keep.source,
                "telemetry.jsonl_keep",
                message,
            ));
        }
        self.slo.check("telemetry.slo", &mut problems);
        if problems.is_empty() {
            Ok(self.filled_in())
        } else {
            Err(problems)
        }
    }

    /// Checks that each output path may be a file, and that no two paths are the same.
    fn check_files(&self, problems: &mut Vec<ConfigProblem>) {
        let files = [
            ("sqlite", &self.sqlite),
            ("jsonl", &self.jsonl),
            ("prometheus_textfile", &self.prometheus_textfile),
        ];
        for (index, (name, set)) in files.iter().enumerate() {
            let Some(set) = set else { continue };
            let Some(path) = &set.value.0 else { continue };
            let is_same = |other: &&(&str, &Option<SourcedValue<OutputFile>>)| {
                other
                    .1
                    .as_ref()
                    .is_some_and(|other| other.value == set.value)
            };
            let wrong = match files[..index].iter().find(is_same) {
                Some((other, _)) => Some(format!("is the same file as telemetry.{other}")),
                None => unusable(path),
            };
            if let Some(wrong) = wrong {
                let (key, message) = (
                    format!("telemetry.{name}"),
                    format!("'{}' {wrong}", path.display()),
                );
                problems.push(ConfigProblem::new(&set.source, key, message));
            }
        }
    }

    fn filled_in(&self) -> TelemetryConfig {
        let days = self.keep_days().value;
        TelemetryConfig {
            enabled: self.enabled().value,
            sqlite: match &self.sqlite {
                None => Destination::StateDirectory,
                Some(set) => {
                    let path = set.value.0.clone();
                    path.map_or(Destination::Off, Destination::File)
                }
            },
            jsonl: self.jsonl().value.0,
            jsonl_rotate: u64::from(self.jsonl_rotate_mb().value.get()) << 20,
            jsonl_keep: self.jsonl_keep().value,
            textfile: self.prometheus_textfile().value.0,
            keep: (days > 0).then(|| Duration::from_secs(u64::from(days) * 86_400)),
            queue: self.queue().value.get() as usize,
        }
    }
}

/// Returns the reason why a path cannot be an output file, as far as that can be known without
/// writing; `None` if no reason is known.
fn unusable(path: &Path) -> Option<String> {
    let text = path.as_os_str().to_string_lossy();
    if text.is_empty() {
        return Some("is not the name of a file; write off for none".to_owned());
    }
    if text.starts_with("~/") {
        return Some("begins with '~', which only shells expand; write the whole path".to_owned());
    }
    if text.ends_with('/') || path.is_dir() {
        return Some("is a directory; name a file in it".to_owned());
    }
    // The nearest existing path above must be a directory.
    let above = path.ancestors().skip(1).find(|path| path.exists())?;
    (!above.is_dir()).then(|| format!("cannot be made: {} is not a directory", above.display()))
}

impl SloSettings {
    /// Reads targets from a separate file. Targets that the file does not set keep the value of
    /// `below`, which is from the configuration.
    ///
    /// # Errors
    /// [`ConfigProblems`] with every problem and its position.
    pub fn from_file(path: &Path, below: &Self) -> Result<Self, ConfigProblems> {
        let mut problems = Vec::new();
        let written: Self = match read_file(path, &mut problems) {
            Some(node) => read("slo", node, &[], &mut problems),
            None => Self::default(),
        };
        written.check("slo", &mut problems);
        if problems.is_empty() {
            Ok(written.over(below.clone()))
        } else {
            Err(ConfigProblems::sorted(problems))
        }
    }

    /// Checks that targets for shares are at most 1: a larger one would always be missed or always
    /// met.
    fn check(&self, path: &str, problems: &mut Vec<ConfigProblem>) {
        for (name, set) in [
            ("success_after_open_min", &self.success_after_open_min),
            ("http_429_ratio_max", &self.http_429_ratio_max),
            ("http_503_ratio_max", &self.http_503_ratio_max),
        ] {
            if let Some(set) = set
                && set.value > 1.0
            {
                let message = format!("{} is more than 1; write a share, such as 0.05", set.value);
                problems.push(ConfigProblem::new(
                    &set.source,
                    format!("{path}.{name}"),
                    message,
                ));
            }
        }
    }
}
