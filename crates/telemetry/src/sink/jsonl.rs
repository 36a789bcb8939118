//! Every event as a line of JSON, in a file that is begun anew when it has grown large.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::config::Config;
use docstokg_hub::json::escape_controls;
use docstokg_hub::policy::breaker::State;
use docstokg_hub::stores::private;
use serde_json::{Map, Value, json};

use super::{Failed, Sink};
use crate::record::{HttpRecord, Place, RateRecord, Record, Stamped};
use crate::run::Run;

/// Writes lines to a file; `events.jsonl` becomes `events.jsonl.1`, then `.2`, and so on.
pub struct JsonlSink {
    path: PathBuf,
    rotate: u64,
    keep: u32,
    run: Arc<Run>,
    config: Arc<Config>,
    file: Option<BufWriter<File>>,
    written: u64,
}

impl JsonlSink {
    /// Opens the file, to go on at its end.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(path: &Path, run: Arc<Run>, config: Arc<Config>) -> std::io::Result<Self> {
        let telemetry = &config.telemetry;
        let mut sink = Self {
            path: path.to_owned(),
            rotate: telemetry.jsonl_rotate,
            keep: telemetry.jsonl_keep,
            run,
            config,
            file: None,
            written: 0,
        };
        sink.reopen()?;
        Ok(sink)
    }

    fn reopen(&mut self) -> std::io::Result<()> {
        private::make_file(&self.path)?;
        let file = OpenOptions::new().append(true).open(&self.path)?;
        self.written = file.metadata()?.len();
        self.file = Some(BufWriter::new(file));
        Ok(())
    }

    fn older(&self, age: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{age}"));
        name.into()
    }

    /// Puts the file aside. Another process may have done so meanwhile: then its new file is the
    /// one to go on with.
    fn rotate(&mut self) -> std::io::Result<()> {
        if let Some(mut file) = self.file.take() {
            file.flush()?;
        }
        if std::fs::metadata(&self.path).is_ok_and(|meta| meta.len() >= self.rotate) {
            if self.keep == 0 {
                std::fs::remove_file(&self.path)?;
            } else {
                for age in (1..self.keep).rev() {
                    // One that is not there yet need not move.
                    let _ = std::fs::rename(self.older(age), self.older(age + 1));
                }
                std::fs::rename(&self.path, self.older(1))?;
            }
        }
        self.reopen()
    }

    fn put(&mut self, lines: &str) -> std::io::Result<()> {
        if self.file.is_none() || self.written >= self.rotate {
            self.rotate()?;
        }
        if let Some(file) = &mut self.file {
            file.write_all(lines.as_bytes())?;
            self.written += lines.len() as u64;
        }
        Ok(())
    }
}

impl Sink for JsonlSink {
    fn name(&self) -> &'static str {
        "jsonl"
    }

    fn write(&mut self, batch: &[Stamped], _: usize, _: u64) -> Result<(), Failed> {
        let mut lost = 0;
        let mut why = None;
        let mut lines = String::new();
        for stamped in batch {
            lines.clear();
            for (name, fields) in events(&stamped.record, &self.config) {
                let mut line = Map::new();
                line.insert("event".to_owned(), json!(name));
                line.insert("ts".to_owned(), json!(stamped.at.to_string()));
                line.insert("run_id".to_owned(), json!(self.run.id));
                line.insert("config_hash".to_owned(), json!(self.run.config_hash));
                if let Value::Object(fields) = fields {
                    line.extend(fields);
                }
                lines.push_str(&escape_controls(Value::Object(line).to_string()));
                lines.push('\n');
            }
            if let Err(error) = self.put(&lines) {
                lost += 1;
                why = Some(error);
            }
        }
        if let Some(Err(error)) = self.file.as_mut().map(BufWriter::flush) {
            lost += batch.len() as u64 - lost;
            why = Some(error);
            // What the buffer still holds would come out later, in the middle of something else.
            self.file = None;
        }
        match why {
            Some(error) if lost > 0 => Err(Failed {
                lost,
                why: format!("{} cannot be written: {error}", self.path.display()),
            }),
            _ => Ok(()),
        }
    }

    fn close(&mut self, dropped: u64) -> Result<(), Failed> {
        if dropped > 0 {
            let line = json!({ "event": "telemetry_dropped", "run_id": self.run.id, "config_hash": self.run.config_hash, "events": dropped });
            let _ = self.put(&format!("{line}\n"));
        }
        self.write(&[], 0, dropped)
    }
}

/// Returns the events of a record, by the names that others know them under.
fn events(record: &Record, config: &Config) -> Vec<(&'static str, Value)> {
    match record {
        Record::Call(call) => {
            let more = json!({
                "breaker_host_state": call.host_state.as_str(), "breaker_host_cooldown_ms": call.host_cooldown.map(millis),
                "breaker_resolver_state": call.resolver_state.map(State::as_str),
            });
            vec![("breaker_before_call", merged(placed(&call.place), more))]
        }
        Record::Http(http) => {
            let mut events = vec![("http", attempt(http))];
            let with_class = || merged(placed(&http.place), json!({ "error": class(http) }));
            match http.breaker_recorded {
                "success" => events.push(("breaker_success", placed(&http.place))),
                "failure" => events.push(("breaker_failure", with_class())),
                _ => {}
            }
            events
        }
        Record::Rate(rate) => vec![("ratelimit.acquire", acquire(rate, config))],
        Record::Transition(change) => vec![(
            "breaker_state_change",
            json!({
                "scope": change.scope, "key": &*change.key, "from_state": change.from.as_str(), "to_state": change.to.as_str(),
                "fail_count": change.fail_count, "reset_timeout_s": change.reset.map(|reset| reset.as_secs_f64()), "reason": change.reason,
                "elsewhere": change.elsewhere,
            }),
        )],
        Record::Cooldown(cooldown) => {
            let key = format!("{}:{}", cooldown.place.host, cooldown.place.role);
            vec![(
                "ratelimit.cooldown",
                merged(
                    placed(&cooldown.place),
                    json!({ "key": key, "seconds": cooldown.length.as_secs_f64() }),
                ),
            )]
        }
        Record::Adjusted(change) => {
            vec![(
                "aimd_adjust",
                merged(
                    placed(&change.place),
                    json!({ "old": change.old, "new": change.new, "reason": change.reason }),
                ),
            )]
        }
        Record::End(end) => vec![(
            "request_end",
            merged(
                placed(&end.place),
                json!({
                    "url": &*end.url, "attempts": end.attempts, "status": end.status, "stopped": end.stopped, "error": end.error,
                    "elapsed_ms": millis(end.elapsed),
                }),
            ),
        )],
        Record::Budget(budget) => vec![(
            "budget",
            json!({ "host": budget.host.as_str(), "role": budget.role.as_str(), "kind": budget.kind.as_deref(), "budget": budget.budget, "rates": budget.rates }),
        )],
    }
}

fn placed(place: &Place) -> Value {
    json!({ "request": place.request, "host": place.host.as_str(), "role": place.role.as_str(), "resolver": place.resolver.as_deref() })
}

fn merged(mut value: Value, more: Value) -> Value {
    if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
        value.extend(more);
    }
    value
}

fn class(http: &HttpRecord) -> String {
    http.error.map_or_else(
        || {
            http.status
                .map_or_else(String::new, |status| format!("http_{status}"))
        },
        str::to_owned,
    )
}

fn attempt(http: &HttpRecord) -> Value {
    let more = json!({
        "method": http.method.as_str(), "url": &*http.url, "sent": http.sent, "attempt": http.attempt, "status": http.status, "error": http.error,
        "retry_after_s": http.retry_after.map(|asked| asked.as_secs_f64()), "rate_delay_ms": millis(http.rate_delay),
        "rate_concurrency_wait_ms": millis(http.slot_wait), "breaker_wait_ms": millis(http.breaker_wait),
        "breaker_host_state": http.host_state.as_str(), "breaker_host_cooldown_ms": http.cooldown.filter(|_| http.host_state != State::Closed).map(millis),
        "breaker_resolver_state": http.resolver_state.map(State::as_str),
        "breaker_recorded": http.breaker_recorded, "header_ms": http.header_time.map(millis), "body_ms": http.body_time.map(millis),
        "elapsed_ms": millis(http.elapsed), "bytes": http.bytes,
    });
    merged(placed(&http.place), more)
}

fn acquire(rate: &RateRecord, config: &Config) -> Value {
    let place = &rate.place;
    let rates: Vec<String> = config
        .limits
        .of(&place.host, place.role)
        .rates
        .value
        .iter()
        .map(ToString::to_string)
        .collect();
    let more = json!({
        "key": format!("{}:{}", place.host, place.role), "rates": rates, "weight": rate.weight, "mode": rate.mode, "action": rate.action.as_str(),
        "blocked_ms": millis(rate.delay), "estimated_ms": rate.estimate.map(millis), "outcome": rate.action.outcome(),
    });
    merged(placed(place), more)
}

/// Returns milliseconds with three digits after the point.
#[expect(clippy::cast_precision_loss, reason = "microseconds fit")]
pub(crate) fn millis(length: Duration) -> f64 {
    length.as_micros() as f64 / 1_000.0
}
