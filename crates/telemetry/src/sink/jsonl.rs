//! Writes every event as a line of JSON to a file that is rotated at a size limit.

mod events;

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::json::escape_controls;
use docstokg_hub::stores::private;
use serde_json::{Map, Value, json};

use super::{Sink, WriteFailure};
use crate::config::TelemetryConfig;
use crate::record::TimedRecord;
use crate::run::RunIdentity;
use events::events;

/// A [`Sink`] that writes lines to a file. When `events.jsonl` has reached its maximum size, it is
/// renamed to `events.jsonl.1`, the previous one of that name to `.2`, and so on.
pub struct JsonlSink {
    path: PathBuf,
    rotate: u64,
    keep: u32,
    run: Arc<RunIdentity>,
    file: Option<BufWriter<File>>,
    written: u64,
}

impl JsonlSink {
    /// Opens the file to append to it.
    ///
    /// # Errors
    /// The I/O error if the file cannot be opened.
    pub fn open(
        path: &Path,
        run: Arc<RunIdentity>,
        telemetry: &TelemetryConfig,
    ) -> std::io::Result<Self> {
        let mut sink = Self {
            path: path.to_owned(),
            rotate: telemetry.jsonl_rotate,
            keep: telemetry.jsonl_keep,
            run,
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

    fn rotated(&self, age: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{age}"));
        name.into()
    }

    /// Renames the file and starts a new one. If another process has already renamed it, opens the
    /// new file of that process.
    fn rotate(&mut self) -> std::io::Result<()> {
        if let Some(mut file) = self.file.take() {
            file.flush()?;
        }
        if std::fs::metadata(&self.path).is_ok_and(|meta| meta.len() >= self.rotate) {
            if self.keep == 0 {
                std::fs::remove_file(&self.path)?;
            } else {
                for age in (1..self.keep).rev() {
                    // A file that does not exist yet need not be renamed.
                    let _ = std::fs::rename(self.rotated(age), self.rotated(age + 1));
                }
                std::fs::rename(&self.path, self.rotated(1))?;
            }
        }
        self.reopen()
    }

    fn append(&mut self, lines: &str) -> std::io::Result<()> {
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

    fn write(&mut self, batch: &[TimedRecord], _: usize, _: u64) -> Result<(), WriteFailure> {
        let mut lost = 0;
        let mut why = None;
        let mut lines = String::new();
        for stamped in batch {
            lines.clear();
            for (name, fields) in events(&stamped.record) {
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
            if let Err(error) = self.append(&lines) {
                lost += 1;
                why = Some(error);
            }
        }
        if let Some(Err(error)) = self.file.as_mut().map(BufWriter::flush) {
            lost += batch.len() as u64 - lost;
            why = Some(error);
            // A buffer that is kept would be written later, in the middle of another line.
            self.file = None;
        }
        match why {
            Some(error) if lost > 0 => Err(WriteFailure {
                lost,
                why: format!("{} cannot be written: {error}", self.path.display()),
            }),
            _ => Ok(()),
        }
    }

    fn close(&mut self, dropped: u64) -> Result<(), WriteFailure> {
        if dropped > 0 {
            let line = json!({
                "event": "telemetry_dropped",
                "run_id": self.run.id,
                "config_hash": self.run.config_hash,
                "events": dropped,
            });
            let _ = self.append(&format!("{line}\n"));
        }
        self.write(&[], 0, dropped)
    }
}

/// Converts a time to milliseconds, rounded to three decimals.
#[expect(clippy::cast_precision_loss, reason = "microseconds fit")]
pub(crate) fn millis(length: Duration) -> f64 {
    length.as_micros() as f64 / 1_000.0
}
