//! The end of a work, and its record.

use docstokg_bulk::queue::ItemEnd;
use docstokg_bulk::scheduler::{RunError, RunMode};

use super::works::{ActiveWork, WorksJob};
use crate::manifest::WorkAccount;
use crate::reason::Reason;

impl WorksJob {
    /// Records the end of a work.
    pub(super) async fn record_end(&self, item: ActiveWork) -> Result<(), RunError> {
        let (id, attempts) = (item.id, item.state.attempts);
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

/// Returns the classification of a work without a file, by its [`Reason`].
fn classification(reason: Reason) -> &'static str {
    match reason {
        Reason::HttpStatus | Reason::RequestException | Reason::NameNotFound => "http_error",
        Reason::PayloadTooLarge => "payload_too_large",
        Reason::PdfSniffUnknown => "unknown",
        _ => "miss",
    }
}
