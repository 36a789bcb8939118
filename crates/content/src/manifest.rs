//! What became of every work, in the words that `manifest.jsonl` has: one JSON object per line, told apart by `record_type`.
//!
//! The run's SQLite file is the truth; the lines are written after it and made anew from it whenever a run begins, so that
//! a killed process leaves neither half a line nor one too many.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use docstokg_hub::clock::Timestamp;
use docstokg_hub::files::beside;
use docstokg_hub::redact;
use docstokg_policy::canonical;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::artifact::{Arrived, content_type};
use crate::digest::fingerprint;
use crate::location::Location;
use crate::pursuit::Setback;
use crate::queue::{AttemptRow, ManifestRow, Queue, QueueError};
use crate::work::Work;

/// The version of the records.
const SCHEMA_VERSION: u32 = 5;

/// What all records of a run have in common.
#[derive(Clone, Debug)]
pub(crate) struct Scribe {
    pub(crate) run_id: String,
    pub(crate) dry_run: bool,
}

/// One attempt, as it is told.
pub(crate) struct Attempt<'a> {
    pub(crate) work_id: &'a str,
    pub(crate) resolver: &'a str,
    pub(crate) location: Option<&'a Location>,
    pub(crate) status: &'static str,
    pub(crate) http_status: Option<u16>,
    pub(crate) reason: Option<&'a str>,
    pub(crate) detail: Option<&'a str>,
    pub(crate) elapsed_ms: f64,
    pub(crate) found: Option<usize>,
}

impl Scribe {
    fn base(&self, record: &str, work_id: &str, at: Timestamp) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("record_type".to_owned(), json!(record));
        map.insert("schema_version".to_owned(), json!(SCHEMA_VERSION));
        map.insert("timestamp".to_owned(), json!(at.to_string()));
        map.insert("run_id".to_owned(), json!(self.run_id));
        map.insert("work_id".to_owned(), json!(work_id));
        map.insert("dry_run".to_owned(), json!(self.dry_run));
        map
    }

    /// Writes an attempt.
    pub(crate) fn attempt(&self, attempt: &Attempt<'_>, at: Timestamp) -> AttemptRow {
        let mut payload = self.base("attempt", attempt.work_id, at);
        let url = attempt.location.map(|location| redact(&location.url));
        let canonical = attempt.location.map(|location| redact(&canonical::for_index(&location.url)));
        for (name, value) in [
            ("resolver_name", json!(attempt.resolver)),
            ("url", json!(url)),
            ("canonical_url", json!(canonical)),
            ("original_url", json!(url)),
            ("status", json!(attempt.status)),
            ("http_status", json!(attempt.http_status)),
            ("elapsed_ms", json!(attempt.elapsed_ms)),
            ("reason", json!(attempt.reason)),
            ("reason_detail", json!(attempt.detail)),
            ("metadata", json!({ "locations": attempt.found })),
        ] {
            payload.insert(name.to_owned(), value);
        }
        AttemptRow {
            at: at.as_secs_f64(),
            run_id: self.run_id.clone(),
            work_id: attempt.work_id.to_owned(),
            resolver: attempt.resolver.to_owned(),
            url,
            status: attempt.status,
            http_status: attempt.http_status,
            reason: attempt.reason.map(str::to_owned),
            payload: sorted(payload),
        }
    }

    /// Writes the record of a file that is there.
    pub(crate) fn saved(
        &self,
        item: i64,
        work: &Work,
        work_id: &str,
        location: &Location,
        arrived: &Arrived,
        path: &str,
        at: Timestamp,
    ) -> ManifestRow {
        let mut payload = self.base("manifest", work_id, at);
        let header = |name: http::HeaderName| arrived.head.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let canonical = canonical::for_index(&location.url);
        let reason = arrived.without_eof.then_some("pdf_eof_missing");
        for (name, value) in [
            ("title", json!(work.title)),
            ("publication_year", json!(work.year)),
            ("resolver", json!(location.resolver)),
            ("url", json!(redact(&arrived.head.url))),
            ("canonical_url", json!(redact(&canonical))),
            ("original_url", json!(redact(&location.url))),
            ("path", json!(path)),
            ("classification", json!(arrived.kind.as_str())),
            ("content_type", json!(content_type(&arrived.head))),
            ("reason", json!(reason)),
            ("reason_detail", json!(reason.map(|_| "the file has all its bytes, but no end mark"))),
            ("html_paths", json!([])),
            ("sha256", json!(arrived.file.sha256)),
            ("content_length", json!(arrived.file.bytes)),
            ("etag", json!(header(http::header::ETAG))),
            ("last_modified", json!(header(http::header::LAST_MODIFIED))),
            ("extracted_text_path", Value::Null),
            ("license", json!(location.licence)),
            ("version", json!(location.version)),
        ] {
            payload.insert(name.to_owned(), value);
        }
        ManifestRow {
            at: at.as_secs_f64(),
            run_id: self.run_id.clone(),
            item,
            work_id: work_id.to_owned(),
            classification: arrived.kind.as_str().to_owned(),
            reason: reason.map(str::to_owned),
            url: Some(redact(&location.url)),
            path: Some(path.to_owned()),
            sha256: Some(arrived.file.sha256.clone()),
            bytes: Some(arrived.file.bytes),
            canonical: Some(fingerprint(canonical.as_str())),
            payload: sorted(payload),
        }
    }

    /// Writes the record of a work without a file, or of one whose file is somebody else's.
    pub(crate) fn without_file(&self, item: i64, work: &Work, work_id: &str, classification: &str, setback: &Setback, at: Timestamp) -> ManifestRow {
        let mut payload = self.base("manifest", work_id, at);
        for (name, value) in [
            ("title", json!(work.title)),
            ("publication_year", json!(work.year)),
            ("classification", json!(classification)),
            ("reason", json!(setback.reason)),
            ("reason_detail", json!(setback.detail)),
            ("path", Value::Null),
            ("sha256", Value::Null),
            ("url", Value::Null),
            ("html_paths", json!([])),
        ] {
            payload.insert(name.to_owned(), value);
        }
        ManifestRow {
            at: at.as_secs_f64(),
            run_id: self.run_id.clone(),
            item,
            work_id: work_id.to_owned(),
            classification: classification.to_owned(),
            reason: Some(setback.reason.clone()),
            url: None,
            path: None,
            sha256: None,
            bytes: None,
            canonical: None,
            payload: sorted(payload),
        }
    }
}

fn sorted(map: Map<String, Value>) -> Map<String, Value> {
    map.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect()
}

/// `manifest.jsonl`.
#[derive(Clone)]
pub(crate) struct Lines(Arc<Mutex<BufWriter<File>>>);

impl Lines {
    /// Makes the file anew from what the queue knows, and goes on at its end.
    pub(crate) async fn begin(path: &Path, queue: &Queue) -> Result<Self, QueueError> {
        let failed = |error: io::Error| QueueError::Sqlite { path: path.display().to_string(), why: error.to_string() };
        let beside = beside(path);
        let writer = Arc::new(Mutex::new((BufWriter::new(File::create(&beside).map_err(failed)?), None::<io::Error>)));
        let side = Arc::clone(&writer);
        queue
            .each_record(move |line| {
                let (file, error) = &mut *side.lock();
                if error.is_none() {
                    *error = writeln!(file, "{line}").err();
                }
            })
            .await?;
        {
            let (file, error) = &mut *writer.lock();
            if let Some(error) = error.take() {
                return Err(failed(error));
            }
            file.flush().map_err(failed)?;
        }
        std::fs::rename(&beside, path).map_err(failed)?;
        let file = OpenOptions::new().append(true).open(path).map_err(failed)?;
        Ok(Self(Arc::new(Mutex::new(BufWriter::new(file)))))
    }

    /// Appends records that are in the run's file already.
    pub(crate) fn append<'a>(&self, records: impl IntoIterator<Item = &'a Map<String, Value>>) {
        let mut file = self.0.lock();
        for record in records {
            let text = serde_json::to_string(record).unwrap_or_default();
            // What does not get there is made good when the file is made anew.
            let _ = writeln!(file, "{text}");
        }
    }

    /// Writes what is buffered.
    pub(crate) fn flush(&self) {
        let _ = self.0.lock().flush();
    }
}
