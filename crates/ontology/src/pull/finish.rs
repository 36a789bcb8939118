//! Records the outcome of an ontology when the work on it ends.

use docstokg_bulk::queue::{ItemEnd, ManifestRow};
use docstokg_bulk::scheduler::RunError;
use docstokg_hub::json::escape_controls;

use super::ontologies::{ActiveOntology, OntologiesJob};
use super::outcome::{PullEnding, PullOutcome};

impl OntologiesJob {
    /// Records the [`PullOutcome`] of an ontology.
    pub(super) async fn record_end(&self, item: ActiveOntology) -> Result<(), RunError> {
        let (id, attempts) = (
            item.id,
            docstokg_bulk::job::JobState::attempts(&*item.state),
        );
        let failed = || {
            let absence = item.state.failure();
            PullOutcome {
                reason: Some(absence.reason),
                detail: Some(absence.detail),
                attempts: item.state.tried.clone(),
                import_depth: item.state.import_depth,
                ..PullOutcome::new(item.state.wanted.id.as_str(), PullEnding::Failed)
            }
        };
        let pulled = item.state.outcome.clone().unwrap_or_else(failed);
        let is_good = pulled.status.is_good();
        let reason = pulled.reason.map(crate::source::AbsenceReason::as_str);
        let row = ManifestRow {
            at: self.context.clock.runtime().wall(),
            run_id: self.context.run_id.clone(),
            item: id,
            name: item.name.clone(),
            classification: pulled.status.as_str().to_owned(),
            reason,
            detail: pulled.detail.clone(),
            url: pulled.url.clone(),
            path: pulled.path.clone(),
            sha256: None,
            bytes: pulled.content_length,
            fingerprint: None,
            record: escape_controls(serde_json::to_string(&pulled).unwrap_or_default()).into(),
        };
        let end = if is_good {
            ItemEnd::Done(id, attempts)
        } else {
            ItemEnd::Failed(id, attempts)
        };
        self.context
            .manifest
            .record(Vec::new(), vec![row], Some(end))
            .await?;
        self.withheld.lock().remove(&item.name);
        self.context.progress.count(|counters| {
            counters.done += u64::from(is_good);
            counters.failed += u64::from(!is_good);
            if let Some(reason) = reason.filter(|_| !is_good) {
                *counters.reasons.entry(reason).or_default() += 1;
            }
        });
        Ok(())
    }
}
