//! The end of a work, and its record.

use docstokg_bulk::queue::ItemEnd;
use docstokg_bulk::scheduler::{RunError, RunMode};
use docstokg_hub::clock::Timestamp;
use docstokg_hub::files::write_whole;
use docstokg_hub::json::escape_controls;

use super::files::unwritable;
use super::works::{ActiveWork, WorksJob};
use crate::layout::metadata_path;
use crate::manifest::WorkAccount;
use crate::metadata::{SourcedStatement, WorkMetadata};
use crate::reason::Reason;
use crate::work::is_public;

impl WorksJob {
    /// Writes the statements of sources about a work to its file below `metadata`.
    async fn write_metadata(&self, item: &ActiveWork) -> Result<(), RunError> {
        let rows = self.context.queue.metadata_of(item.id).await?;
        let Some(metadata) = merged(item, rows) else {
            return Ok(());
        };
        let file = self.options.out.join(metadata_path(&item.name));
        self.files.create_directory_of(&file)?;
        let text = serde_json::to_string_pretty(&metadata).unwrap_or_default();
        let written = write_whole(&file, &format!("{}\n", escape_controls(text)));
        written.map_err(|error| unwritable(&file, &error))
    }

    /// Records the end of a work.
    pub(super) async fn record_end(&self, item: ActiveWork) -> Result<(), RunError> {
        let (id, attempts) = (item.id, item.state.attempts);
        if self.options.mode == RunMode::Full {
            self.write_metadata(&item).await?;
        }
        if item.state.has_file() {
            // The end is normally recorded with the file. If further kinds were wanted and not
            // found, the end is recorded here.
            if !item.is_end_recorded {
                let end = Some(ItemEnd::Done(id, attempts));
                self.context
                    .manifest
                    .record(Vec::new(), Vec::new(), end)
                    .await?;
            }
            self.context.progress.count(|counters| counters.done += 1);
            return Ok(());
        }
        let now = self.context.clock.now();
        let failure = item
            .state
            .failure(&self.goals, &self.lookups.resolvers, now);
        let classification = if self.options.mode == RunMode::Full {
            classification(failure.reason)
        } else {
            "skipped"
        };
        let account = WorkAccount {
            item: id,
            work: &item.state.work,
            work_id: &item.name,
            classification,
            reason: Some(failure.reason),
            detail: Some(&failure.detail),
            http_status: failure.http_status,
            file: None,
        };
        let row = self
            .records
            .manifest(&account, self.context.clock.runtime().wall());
        let end = Some(ItemEnd::Failed(id, attempts));
        self.context
            .manifest
            .record(Vec::new(), vec![row], end)
            .await?;
        self.context.progress.count(|counters| {
            counters.failed += 1;
            *counters.reasons.entry(failure.reason.as_str()).or_default() += 1;
        });
        Ok(())
    }
}

/// Merges the statements of sources about a work.
fn merged(item: &ActiveWork, rows: Vec<(String, Timestamp, String)>) -> Option<WorkMetadata> {
    let statements = SourcedStatement::of_rows(rows);
    // What could carry a credential is left out.
    let mut identifiers = item.state.work.identifiers.clone();
    identifiers.url = identifiers.url.filter(is_public);
    (!statements.is_empty()).then(|| WorkMetadata::merge(&item.name, identifiers, statements))
}

/// Returns the classification of a work without a file, by its [`Reason`].
fn classification(reason: Reason) -> &'static str {
    match reason {
        Reason::HttpStatus | Reason::RequestException | Reason::NameNotFound => "http_error",
        Reason::PayloadTooLarge => "payload_too_large",
        Reason::PdfSniffUnknown => "unknown",
        _ => "miss",
    }
}
