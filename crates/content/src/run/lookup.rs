//! Steps that look for files: the look-up with a resolver, and the reading of a page.

use std::sync::Arc;

use docstokg_bulk::queue::{AttemptRow, MetadataRow};
use docstokg_bulk::scheduler::RunError;
use docstokg_hub::clock::{BootInstant, Timestamp};
use docstokg_hub::{Disposition, RequestGroup};
use docstokg_lookup::driver::look_up;

use super::works::{ActiveWork, WorksJob};
use crate::manifest::RecordedAttempt;
use crate::reason::Reason;
use crate::resolver::settings::Settings;
use crate::resolver::{
    LandingPage, LookupOutcome, Resolver, ResolverId, all, landing, read_by, resolve,
};
use crate::work::{LearnedMetadata, Work};
use crate::work_sender::WorkSender;

/// The resolvers of a run, with the sender of their requests.
pub(super) struct WorkLookups {
    pub(super) resolvers: Vec<Arc<dyn Resolver>>,
    pub(super) settings: Arc<Settings>,
    landing: LandingPage,
    web: WorkSender,
}

impl WorkLookups {
    pub(super) fn new(web: WorkSender, settings: Arc<Settings>) -> Self {
        Self {
            resolvers: all(&settings),
            landing: LandingPage::new(Arc::clone(&settings)),
            web,
            settings,
        }
    }

    fn resolver(&self, id: ResolverId) -> Option<&Arc<dyn Resolver>> {
        self.resolvers.iter().find(|resolver| resolver.id() == id)
    }

    /// Returns the number of works that a resolver is queried about at a time.
    pub(super) fn batch_of(&self, id: ResolverId) -> usize {
        self.resolver(id)
            .map_or(1, |resolver| resolver.batch().max(1))
    }
}

/// Ends the run if a fault of this machine prevented the query.
fn check_machine(outcome: &LookupOutcome) -> Result<(), RunError> {
    match outcome {
        LookupOutcome::Failed(failed) if failed.disposition == Disposition::LocalFault => {
            Err(RunError::Halted(failed.detail.clone()))
        }
        _ => Ok(()),
    }
}

/// Returns what a source states about a work, as it is kept.
pub(super) fn statement_row(
    source: ResolverId,
    outcome: &LookupOutcome,
    at: Timestamp,
) -> Option<MetadataRow> {
    let statement = outcome.learned()?.statement.as_ref()?;
    Some(MetadataRow {
        source: source.as_str(),
        at,
        payload: serde_json::to_string(statement).ok()?,
    })
}

impl WorksJob {
    /// Queries a [`Resolver`] about works.
    pub(super) async fn resolve(
        &self,
        id: ResolverId,
        items: &mut [ActiveWork],
        requests: &Arc<RequestGroup>,
    ) -> Result<(), RunError> {
        let begun = self.context.clock.runtime().boot();
        let Some(resolver) = self.lookups.resolver(id) else {
            return Ok(());
        };
        let known: Vec<Work> = items.iter().map(|item| item.state.work.clone()).collect();
        let is_untrusted = items.iter().any(|item| item.state.is_input_untrusted);
        let web = self.lookups.web.in_group(Arc::clone(requests));
        let web = web.distrusting(is_untrusted);
        let mut outcomes = resolve(&**resolver, &known, &web).await.into_iter();
        if web.was_cancelled() {
            return Ok(());
        }
        let elapsed_ms = self.millis_since(begun);
        let (mut rows, mut statements) = (Vec::new(), Vec::new());
        for item in items {
            let outcome = outcomes.next().unwrap_or_else(|| LookupOutcome::NotFound {
                detail: "no answer for this work".to_owned(),
                learned: LearnedMetadata::default(),
            });
            check_machine(&outcome)?;
            let learned = outcome.learned();
            if let Some(evidence) = learned.and_then(|learned| learned.matched_by.as_ref()) {
                // The user should see what a title was taken for.
                let notice = format!("{}: {evidence}", item.name);
                self.context.progress.notify(notice);
            }
            rows.extend(self.lookup_row(&item.name, id, &outcome, elapsed_ms));
            let statement = statement_row(id, &outcome, self.context.clock.runtime().wall());
            statements.extend(statement.map(|row| (item.id, row)));
            item.state.resolved(id, outcome, self.context.clock.now());
        }
        self.context.queue.add_metadata(statements).await?;
        self.record_attempts(rows).await
    }

    /// Reads a page for candidate locations.
    pub(super) async fn read(
        &self,
        item: &mut ActiveWork,
        candidate: usize,
        requests: &Arc<RequestGroup>,
    ) -> Result<(), RunError> {
        let Some(location) = item.state.candidate(candidate).cloned() else {
            return Ok(());
        };
        let begun = self.context.clock.runtime().boot();
        let web = self.lookups.web.in_group(Arc::clone(requests));
        let web = web.distrusting(item.state.is_input_untrusted);
        let (landing, work) = (&self.lookups.landing, &item.state.work);
        let read = look_up(|| landing.read(location.url, Some(work)), &web).await;
        let outcome = read_by(landing, read);
        if web.was_cancelled() {
            return Ok(());
        }
        let elapsed_ms = self.millis_since(begun);
        check_machine(&outcome)?;
        let row = self.lookup_row(&item.name, landing::ID, &outcome, elapsed_ms);
        item.state
            .read(candidate, outcome, self.context.clock.now());
        self.record_attempts(row.into_iter().collect()).await
    }

    pub(super) fn millis_since(&self, begun: BootInstant) -> f64 {
        let elapsed = self.context.clock.runtime().boot().since(begun);
        elapsed.as_secs_f64() * 1_000.0
    }

    /// Describes a look-up as a row; `None` if no request was sent.
    fn lookup_row(
        &self,
        work_id: &str,
        resolver: ResolverId,
        outcome: &LookupOutcome,
        elapsed_ms: f64,
    ) -> Option<AttemptRow> {
        let asked = RecordedAttempt {
            work_id,
            resolver,
            address: None,
            status: "found",
            http_status: None,
            reason: None,
            detail: None,
            elapsed_ms,
            found: None,
        };
        let attempt = match outcome {
            LookupOutcome::Found(found) => RecordedAttempt {
                found: Some(found.locations.len()),
                detail: found.learned.matched_by.as_deref(),
                ..asked
            },
            LookupOutcome::NotFound { detail, .. } => RecordedAttempt {
                status: "not_found",
                reason: Some(Reason::NotFound),
                detail: Some(detail),
                ..asked
            },
            LookupOutcome::Failed(failure) if !failure.was_requested() => return None,
            LookupOutcome::Failed(failure) => RecordedAttempt {
                status: "error",
                http_status: failure.http_status,
                reason: Some(failure.reason),
                detail: Some(&failure.detail),
                ..asked
            },
        };
        Some(
            self.records
                .attempt(&attempt, self.context.clock.runtime().wall()),
        )
    }
}
