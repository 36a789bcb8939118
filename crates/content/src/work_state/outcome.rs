//! Transitions of a [`WorkState`] by the outcome of a step.

use std::collections::BTreeMap;
use std::time::Duration;

use docstokg_policy::canonical;
use docstokg_policy::time::Timestamp;
use url::Url;

use super::{ArtifactKind, QueriedResolver, TrialState, WorkCandidate, WorkState, retry};
use crate::location::{CandidateLocation, LocationOffer, best_first};
use crate::reason::{AttemptStage, Reason, ReasonedFailure};
use crate::resolver::landing::{self, NO_DOI, NO_PAGE};
use crate::resolver::{LookupOutcome, ResolverId};
use crate::work::is_public;

impl WorkState {
    /// Applies the [`LookupOutcome`] of a resolver.
    pub fn resolved(&mut self, resolver: ResolverId, outcome: LookupOutcome, now: Timestamp) {
        if let Some(learned) = outcome.learned() {
            self.work.learn(learned);
        }
        let stage = if resolver == landing::ID {
            AttemptStage::Page
        } else {
            AttemptStage::Lookup
        };
        self.skip_resolver(resolver);
        let mut asked = self.asked.iter_mut();
        let Some(asked) = asked.find(|asked| asked.resolver == resolver) else {
            return;
        };
        asked.again_at = None;
        asked.failure = match &outcome {
            LookupOutcome::Found(_) => None,
            LookupOutcome::NotFound { detail, .. } => Some(not_found(stage, detail)),
            LookupOutcome::Failed(failed) => {
                asked.put_off(failed, now);
                Some(failed.at(stage))
            }
        };
        if asked.failure.is_some() {
            self.last.clone_from(&asked.failure);
        }
        // A deferred query is not an attempt.
        self.attempts += u32::from(!outcome.is_put_off());
        if let LookupOutcome::Found(found) = outcome {
            self.found(found.locations);
        }
    }

    /// Adds [`CandidateLocation`]s, each once. Candidates that were tried stay unchanged. A
    /// location known as a page is a new candidate if a source now names it as a file.
    pub fn found(&mut self, locations: Vec<CandidateLocation>) {
        let indexed =
            |location: &CandidateLocation| canonical::for_index(&location.url).to_string();
        let known = self.candidates.iter().enumerate();
        // If a page and a file have the same URL, the file comes later and remains in the table.
        let mut known: BTreeMap<String, usize> = known
            .map(|(number, candidate)| (indexed(&candidate.location), number))
            .collect();
        for location in best_first(locations) {
            let url = indexed(&location);
            let at_url = known.get(&url);
            match at_url.and_then(|number| self.candidates.get_mut(*number)) {
                Some(candidate) if !candidate.becomes_file_by(&location) => {}
                Some(candidate) if candidate.state == TrialState::No => {
                    candidate.location.complete(location);
                }
                _ => {
                    known.insert(url, self.candidates.len());
                    self.candidates.push(WorkCandidate::new(location));
                }
            }
        }
    }

    /// Applies the [`LookupOutcome`] of reading a page.
    pub fn read(&mut self, candidate: usize, outcome: LookupOutcome, now: Timestamp) {
        let page = self.candidate(candidate).cloned();
        let failure = match &outcome {
            LookupOutcome::Failed(failure) => Some(failure.at(AttemptStage::Page)),
            LookupOutcome::NotFound { detail, .. } => Some(not_found(AttemptStage::Page, detail)),
            LookupOutcome::Found(_) => None,
        };
        self.note(candidate, failure);
        if let LookupOutcome::Failed(failed) = &outcome
            && let Some(later) = failed.disposition.retry()
        {
            return self.defer(candidate, now + later.wait, 0);
        }
        self.attempts += 1;
        self.close(candidate);
        if let Some(learned) = outcome.learned() {
            self.work.learn(learned);
        }
        if let LookupOutcome::Found(found) = outcome
            && let Some(page) = page
        {
            let locations = found.locations.into_iter();
            self.found(locations.filter_map(|found| behind(&page, found)).collect());
        }
    }

    /// Records that the candidate led to a file.
    pub fn saved(&mut self, candidate: usize, kind: ArtifactKind) {
        self.attempts += 1;
        self.close(candidate);
        self.note(candidate, None);
        self.got.insert(kind);
    }

    /// Records the [`ReasonedFailure`] of a candidate that must not be tried again.
    pub fn failed(&mut self, candidate: usize, failure: ReasonedFailure) {
        self.attempts += 1;
        self.close(candidate);
        self.note(candidate, Some(failure));
    }

    /// Defers the candidate, which does not count as an attempt.
    pub fn postponed(
        &mut self,
        candidate: usize,
        failure: ReasonedFailure,
        wait: Duration,
        now: Timestamp,
    ) {
        self.defer(candidate, now + retry::wait_for_file(wait), 0);
        self.note(candidate, Some(failure));
    }

    /// Defers a candidate that its host is still preparing, or gives it up after too many requests.
    pub fn preparing(
        &mut self,
        candidate: usize,
        failure: ReasonedFailure,
        stated: Option<Duration>,
        now: Timestamp,
    ) {
        let polls = self.times_deferred(candidate) + 1;
        let Some(wait) = retry::wait_for_preparation(stated, polls) else {
            return self.failed(candidate, failure);
        };
        self.attempts += 1;
        self.defer(candidate, now + wait, polls);
        self.note(candidate, Some(failure));
    }

    /// Defers the candidate until `at`, while another work fetches the same URL.
    pub fn wait_for_other(&mut self, candidate: usize, at: Timestamp) {
        self.defer(candidate, at, self.times_deferred(candidate));
        let busy = ReasonedFailure::new(
            AttemptStage::File,
            Reason::DuplicateUrlGlobal,
            "another work is fetching the same URL",
            None,
        );
        self.note(candidate, Some(busy));
    }

    /// Records that a URL no longer exists, so that archives with copies of it may be queried.
    pub fn gone(&mut self, url: &Url) {
        // A URL with a credential must not be passed to other services.
        if is_public(url) && !self.work.failed_urls.contains(url) {
            self.work.failed_urls.push(url.clone());
        }
    }

    /// Marks a resolver as queried, because its response is known.
    pub fn skip_resolver(&mut self, resolver: ResolverId) {
        if self.asked.iter().all(|asked| asked.resolver != resolver) {
            self.asked.push(QueriedResolver::new(resolver));
        }
    }

    /// Ends the work for a [`Reason`] that is not the outcome of a step, such as a time limit.
    pub fn end_by(&mut self, reason: Reason, detail: &str) {
        self.ended_by = Some(ReasonedFailure::new(
            AttemptStage::Lookup,
            reason,
            detail,
            None,
        ));
    }

    /// Sets or clears the failure of a candidate: the latest result replaces the previous one.
    fn note(&mut self, candidate: usize, failure: Option<ReasonedFailure>) {
        if failure.is_some() {
            self.last.clone_from(&failure);
        }
        if let Some(candidate) = self.candidates.get_mut(candidate) {
            candidate.failure = failure;
        }
    }

    /// Returns the number of requests for a file that is still being prepared.
    fn times_deferred(&self, candidate: usize) -> u32 {
        match self
            .candidates
            .get(candidate)
            .map(|candidate| candidate.state)
        {
            Some(TrialState::Later(_, times)) => times,
            _ => 0,
        }
    }

    fn defer(&mut self, candidate: usize, until: Timestamp, times: u32) {
        self.set(candidate, TrialState::Later(until, times));
    }

    fn close(&mut self, candidate: usize) {
        self.set(candidate, TrialState::Yes);
    }

    fn set(&mut self, candidate: usize, state: TrialState) {
        if let Some(candidate) = self.candidates.get_mut(candidate) {
            candidate.state = state;
        }
    }
}

impl WorkCandidate {
    /// Tells whether this candidate is known as a page, and `found` names its URL as a file.
    fn becomes_file_by(&self, found: &CandidateLocation) -> bool {
        self.location.offers == LocationOffer::Landing
            && !matches!(
                found.offers,
                LocationOffer::Landing | LocationOffer::Unknown
            )
    }
}

/// Returns a location that a page names. If the page itself is the file, the location keeps the
/// facts from its source. A page that names only its own URL names nothing.
fn behind(page: &CandidateLocation, found: CandidateLocation) -> Option<CandidateLocation> {
    if canonical::for_index(&found.url) != canonical::for_index(&page.url) {
        return Some(found);
    }
    let is_file_itself = found.referer.is_none();
    is_file_itself.then(|| CandidateLocation {
        offers: found.offers,
        ..page.clone()
    })
}

/// Describes that a service knows no file. A page without a file has more weight than a service
/// without one.
fn not_found(stage: AttemptStage, detail: &str) -> ReasonedFailure {
    let was_read = stage == AttemptStage::Page && ![NO_PAGE, NO_DOI].contains(&detail);
    let reason = if was_read {
        Reason::HtmlOnly
    } else {
        Reason::NotFound
    };
    ReasonedFailure::new(stage, reason, detail, None)
}
