//! The step that fetches a file.

use std::sync::Arc;

use docstokg_bulk::queue::AttemptRow;
use docstokg_bulk::scheduler::{RunError, RunMode};
use docstokg_bulk::staging::staging_file;
use docstokg_hub::{Disposition, RequestGroup, redact};

use super::works::{ActiveWork, WorksJob};
use crate::artifact::{ArtifactPage, FetchOutcome, IN_FLIGHT, JudgedCandidate};
use crate::location::CandidateLocation;
use crate::manifest::{Address, RecordedAttempt};
use crate::reason::{AttemptStage, Reason, ReasonedFailure};
use crate::request_failure::RequestFailure;
use crate::resolver::landing;

/// A [`CandidateLocation`] that is fetched.
pub(super) struct FetchTarget {
    pub(super) candidate: usize,
    pub(super) location: CandidateLocation,
    pub(super) address: Address,
}

/// The result of an attempt to fetch a [`FetchTarget`], for its record.
#[derive(Clone, Copy, Default)]
pub(super) struct FetchResult<'a> {
    pub(super) status: &'static str,
    pub(super) http_status: Option<u16>,
    pub(super) reason: Option<Reason>,
    pub(super) detail: Option<&'a str>,
}

impl<'a> FetchResult<'a> {
    fn saved(http_status: u16) -> Self {
        Self {
            status: "saved",
            http_status: Some(http_status),
            ..Self::default()
        }
    }

    pub(super) fn of(status: &'static str, failure: &'a ReasonedFailure) -> Self {
        Self {
            status,
            http_status: failure.http_status,
            reason: Some(failure.reason),
            detail: Some(&failure.detail),
        }
    }
}

/// Describes an [`ArtifactPage`] as a [`ReasonedFailure`].
fn page_seen(page: &ArtifactPage) -> ReasonedFailure {
    let detail = format!("a page that names {} locations", page.locations.len());
    let status = Some(page.head.status.as_u16());
    ReasonedFailure::new(AttemptStage::File, Reason::HtmlOnly, &detail, status)
}

/// Adds the candidates of a page that was returned in place of a file.
fn take_page(item: &mut ActiveWork, target: &FetchTarget, page: ArtifactPage) {
    let status = Some(page.head.status.as_u16());
    let names_candidates = !page.locations.is_empty();
    item.state.work.learn(&page.learned);
    item.state.found(page.locations);
    if names_candidates {
        // Most likely this is the work's own page, so it need not be read again. A page without
        // links does not exclude another page with links.
        item.state.skip_resolver(landing::ID);
    }
    let detail = "a page came where a file was wanted";
    let failure = ReasonedFailure::new(AttemptStage::File, Reason::HtmlOnly, detail, status);
    item.state.failed(target.candidate, failure);
}

impl WorksJob {
    /// Fetches a candidate, or reuses the file that another work has from its URL.
    pub(super) async fn fetch(
        &self,
        item: &mut ActiveWork,
        candidate: usize,
        requests: &Arc<RequestGroup>,
    ) -> Result<(), RunError> {
        let Some(location) = item.state.candidate(candidate).cloned() else {
            return Ok(());
        };
        if self.options.mode == RunMode::ListOnly {
            let shown = redact(&location.url);
            item.state.end_by(Reason::ListOnly, &shown);
            self.context.progress.list(&item.name, shown);
            return Ok(());
        }
        self.files.check_space()?;
        let target = FetchTarget {
            candidate,
            address: Address::of(&location.url),
            location,
        };
        let url = target.address.fingerprint;
        // Reserved until the file has its final path, so that no other work fetches the same URL.
        let Some(_claim) = self.files.fetcher.claim(url) else {
            item.state
                .wait_for_other(candidate, self.context.clock.now() + IN_FLIGHT);
            return Ok(());
        };
        match self.files.owner_of(url).filter(|owner| *owner != item.id) {
            Some(owner) => self.share(item, &target, owner).await,
            None => self.download(item, &target, requests).await,
        }
    }

    async fn download(
        &self,
        item: &mut ActiveWork,
        target: &FetchTarget,
        requests: &Arc<RequestGroup>,
    ) -> Result<(), RunError> {
        let begun = self.context.clock.runtime().boot();
        let missing = item.state.missing(&self.goals);
        let staged = staging_file(&self.options.out, item.id, target.address.fingerprint);
        self.files.create_directory_of(&staged)?;
        let candidate = JudgedCandidate {
            location: &target.location,
            work: &item.state.work,
            missing: &missing,
            is_input_untrusted: item.state.is_input_untrusted,
        };
        let request = self.files.fetcher.fetch(&candidate, &staged, requests);
        let fetched = request.await;
        let elapsed_ms = self.millis_since(begun);
        self.take_fetched(item, target, fetched, elapsed_ms).await
    }

    /// Adds the outcome of a request for a file to the state of the work, and records the attempt.
    async fn take_fetched(
        &self,
        item: &mut ActiveWork,
        target: &FetchTarget,
        fetched: FetchOutcome,
        elapsed_ms: f64,
    ) -> Result<(), RunError> {
        let row = |item: &ActiveWork, result| self.fetch_row(item, target, result, elapsed_ms);
        let row = match fetched {
            FetchOutcome::File(arrived) => {
                let row = row(item, FetchResult::saved(arrived.head.status.as_u16()));
                return self.save(item, target, *arrived, row).await;
            }
            FetchOutcome::Page(page) => {
                let seen = page_seen(&page);
                let row = row(item, FetchResult::of("html", &seen));
                take_page(item, target, *page);
                row
            }
            FetchOutcome::Preparing(stated) => {
                let detail = "the file is being prepared";
                let failure =
                    ReasonedFailure::new(AttemptStage::File, Reason::Preparing, detail, Some(202));
                let row = row(item, FetchResult::of("later", &failure));
                let now = self.context.clock.now();
                item.state.preparing(target.candidate, failure, stated, now);
                row
            }
            FetchOutcome::Failed { failure, gone } => {
                if gone {
                    item.state.gone(&target.location.url);
                }
                let met = failure.at(AttemptStage::File);
                let status = match failure.disposition {
                    Disposition::Retry(_) | Disposition::Offline(_) => "later",
                    _ => "failed",
                };
                let row = row(item, FetchResult::of(status, &met));
                if !self.take_failure(item, target, &failure, met)? {
                    return Ok(());
                }
                row
            }
        };
        self.record_attempts(vec![row]).await
    }

    /// Adds a failure to the state of the work. Returns whether the failure is an attempt to
    /// record.
    fn take_failure(
        &self,
        item: &mut ActiveWork,
        target: &FetchTarget,
        failure: &RequestFailure,
        met: ReasonedFailure,
    ) -> Result<bool, RunError> {
        match &failure.disposition {
            Disposition::Retry(later) | Disposition::Offline(later) => {
                let now = self.context.clock.now();
                item.state.postponed(target.candidate, met, later.wait, now);
                // A refusal without a request is not an attempt.
                Ok(failure.http_status.is_some())
            }
            Disposition::GiveUp => {
                item.state.failed(target.candidate, met);
                Ok(true)
            }
            Disposition::Cancelled => Ok(false),
            Disposition::LocalFault => Err(RunError::Halted(failure.detail.clone())),
        }
    }

    pub(super) fn fetch_row(
        &self,
        item: &ActiveWork,
        target: &FetchTarget,
        result: FetchResult<'_>,
        elapsed_ms: f64,
    ) -> AttemptRow {
        let attempt = RecordedAttempt {
            work_id: &item.name,
            resolver: target.location.resolver,
            address: Some(&target.address),
            status: result.status,
            http_status: result.http_status,
            reason: result.reason,
            detail: result.detail,
            elapsed_ms,
            found: None,
        };
        self.records
            .attempt(&attempt, self.context.clock.runtime().wall())
    }
}
