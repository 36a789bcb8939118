//! The summary of a run, in the format of `manifest.summary.json`.

use std::collections::BTreeMap;

use docstokg_bulk::progress::Counters;
use docstokg_bulk::queue::{QueueError, WorkQueue};
use docstokg_hub::clock::Timestamp;
use docstokg_hub::files::write_whole;
use serde::Serialize;
use serde_json::{Value, json};

use super::RunOptions;
use crate::results::{ResultCounts, ResultStatus};

/// The summary of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// The id of the run.
    pub run_id: String,
    /// The number of finished works in this directory.
    pub processed: u64,
    /// The number of works with a file.
    pub saved: u64,
    /// The number of works with a page as their only file.
    pub html_only: u64,
    /// The number of works with XML as their only file.
    pub xml_only: u64,
    /// The number of lines that name a known work.
    pub skipped: u64,
    /// The number of works without a file.
    pub failed: u64,
    /// The number of unfinished works.
    pub left: u64,
    /// The number of steps that panicked, which no step should.
    pub worker_failures: u64,
    /// Lines that name no work, those that an earlier run read included.
    pub bad_lines: u64,
    /// The same lines in this run.
    #[serde(skip)]
    pub bad_lines_read: u64,
    /// The lines of the list by status.
    pub results: ResultCounts,
    /// Inputs were not read to their end, in this run or the previous one.
    pub inputs_unread: bool,
    /// robots.txt was ignored.
    pub robots_ignored: bool,
    /// The number of files of this run.
    pub files: u64,
    /// The number of bytes of these files.
    pub bytes_downloaded: u64,
    /// The number of PDFs of this run without evidence that they are their work's.
    pub files_without_evidence: u64,
    /// The number of records of each classification.
    pub classification_totals: BTreeMap<String, u64>,
    /// The number of works without a file for each [`Reason`](crate::reason::Reason).
    pub reason_totals: BTreeMap<String, u64>,
    /// The results of the queries to each resolver.
    pub resolvers: Value,
    /// The limits in force.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub limits: Value,
}

/// Summarises the queue, and writes `manifest.summary.json`.
///
/// # Errors
/// Returns a [`QueueError`] if the queue cannot be read, or the file cannot be written.
pub async fn report(
    queue: &WorkQueue,
    options: &RunOptions,
    run_id: &str,
    counters: &Counters,
    now: Timestamp,
) -> Result<RunReport, QueueError> {
    let totals = queue.totals().await?;
    let counts = queue.counts().await?;
    let results = ResultCounts::read(queue, run_id).await?;
    let only = |classification| totals.only.get(classification).copied().unwrap_or(0);
    let report = RunReport {
        run_id: run_id.to_owned(),
        processed: counts.ended(),
        saved: counts.done,
        html_only: only("html"),
        xml_only: only("xml"),
        skipped: counters.duplicates,
        failed: counts.failed,
        left: counts.left(),
        worker_failures: 0,
        bad_lines: results.number(ResultStatus::Unrecognised),
        bad_lines_read: counters.bad_lines,
        results,
        inputs_unread: queue.is_unread().await?,
        robots_ignored: options.ignore_robots,
        files: counters.files,
        bytes_downloaded: counters.bytes,
        files_without_evidence: counters.unconfirmed,
        classification_totals: totals.classifications,
        reason_totals: totals.reasons,
        resolvers: json!({ "attempts": totals.attempts, "successes": totals.successes, "status_counts": totals.statuses, "error_reasons": totals.errors }),
        limits: options.limits.clone(),
    };
    let text = serde_json::to_string_pretty(&report).unwrap_or_default();
    let path = options.out.join("manifest.summary.json");
    write_whole(&path, &format!("{text}\n")).map_err(|error| QueueError::Sqlite {
        path: path.display().to_string(),
        why: error.to_string(),
    })?;
    queue.summarise(run_id.to_owned(), now, text).await?;
    Ok(report)
}
