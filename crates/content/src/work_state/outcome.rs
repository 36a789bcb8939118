//! What a step gave, taken into the state.

use std::collections::BTreeSet;
use std::time::Duration;

use docstokg_policy::canonical;
use docstokg_policy::time::Timestamp;
use url::Url;

use super::retry::{self, Lookup, RefusedBy, Retry};
use super::{Asked, Candidate, Kind, Tried, WorkState};
use crate::location::{Location, best_first};
use crate::reason::{Failure, Reason, Stage};
use crate::resolver::landing::{self, NO_DOI, NO_PAGE};
use crate::resolver::{LookupFailure, Outcome, ResolverId};
use crate::work::is_public;

/// A file that is refused for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Postponed {
    /// For how long.
    pub wait: Duration,
    /// Whether the server or an operator stated that, and it was not inferred from failures.
    pub is_stated: bool,
    /// Why.
    pub failure: Failure,
}

/// What a failed look-up says about trying again.
struct Refusal {
    /// How long the service is to be left alone; `None` where that does not help.
    wait: Option<Duration>,
    /// Whether the service answered, and was not kept from being asked.
    has_answered: bool,
}

impl Refusal {
    fn of(failure: &LookupFailure) -> Self {
        if failure.is_about_time() {
            Self {
                wait: failure.retry_in_ms.map(wait_of),
                has_answered: failure.http_status.is_some(),
            }
        } else {
            Self {
                wait: None,
                has_answered: true,
            }
        }
    }
}

fn wait_of(millis: u64) -> Duration {
    Duration::from_millis(millis.min(u64::from(u32::MAX)))
}

/// Tells whether a failure says nothing about the host: the network is missing, or a permit has not
/// come.
fn spares_host(reason: Reason) -> bool {
    matches!(reason, Reason::Offline | Reason::RateLimited)
}

impl WorkState {
    /// Takes in what a resolver said.
    pub fn resolved(&mut self, resolver: ResolverId, outcome: Outcome, now: Timestamp) {
        if let Some(learned) = outcome.learned() {
            self.work.learn(learned);
        }
        let stage = if resolver == landing::ID {
            Stage::Page
        } else {
            Stage::Lookup
        };
        let mut refusal = Refusal {
            wait: None,
            has_answered: true,
        };
        let failure = match outcome {
            Outcome::Found(found) => {
                self.found(found.locations);
                None
            }
            Outcome::NotFound { detail, .. } => Some(not_found(stage, &detail)),
            Outcome::Failed(failure) => {
                refusal = Refusal::of(&failure);
                Some(failure.at(stage))
            }
        };
        // What was not asked is no attempt.
        self.attempts += u32::from(refusal.has_answered);
        if failure.is_some() {
            self.last.clone_from(&failure);
        }
        self.skip_resolver(resolver);
        let mut asked = self.asked.iter_mut();
        if let Some(asked) = asked.find(|asked| asked.resolver == resolver) {
            asked.answered(failure, &refusal, now);
        }
    }

    /// Adds candidate locations, each once: those that were tried already stay as they are.
    pub fn found(&mut self, locations: Vec<Location>) {
        let known = self.candidates.iter();
        let known: BTreeSet<String> = known
            .map(|candidate| canonical::for_index(&candidate.location.url).to_string())
            .collect();
        for location in best_first(locations) {
            if !known.contains(canonical::for_index(&location.url).as_str()) {
                self.candidates.push(Candidate::new(location));
            }
        }
    }

    /// Takes in what reading a page gave.
    pub fn read(&mut self, candidate: usize, outcome: Outcome, now: Timestamp) {
        let url = self
            .candidate(candidate)
            .map(|location| location.url.clone());
        let failure = match &outcome {
            Outcome::Failed(failure) => Some(failure.at(Stage::Page)),
            Outcome::NotFound { detail, .. } => {
                let reason = Reason::HtmlOnly;
                Some(Failure::new(Stage::Page, reason, detail, None))
            }
            Outcome::Found(_) => None,
        };
        self.note(candidate, failure);
        if let Outcome::Failed(failure) = &outcome
            && failure.is_about_time()
            && let Some(wait) = failure.retry_in_ms.map(wait_of)
        {
            // What was not asked is no attempt.
            self.attempts += u32::from(failure.http_status.is_some());
            return self.postpone_page(candidate, failure.reason, wait, now);
        }
        self.attempts += 1;
        self.close(candidate);
        if let Some(learned) = outcome.learned() {
            self.work.learn(learned);
        }
        if let Outcome::Found(found) = outcome {
            let own = url.map(|url| canonical::for_index(&url));
            let is_other = |location: &Location| Some(canonical::for_index(&location.url)) != own;
            self.found(found.locations.into_iter().filter(is_other).collect());
        }
    }

    fn postpone_page(&mut self, candidate: usize, reason: Reason, wait: Duration, now: Timestamp) {
        let counts = !spares_host(reason) && retry::is_failure_of_host(wait);
        let times = self.times_deferred(candidate) + u32::from(counts);
        match retry::of_page(wait, times, now) {
            Retry::At(at) => self.defer(candidate, at, times),
            Retry::GiveUp => self.close(candidate),
        }
    }

    /// The candidate gave a file.
    pub fn saved(&mut self, candidate: usize, kind: Kind) {
        self.attempts += 1;
        self.close(candidate);
        self.note(candidate, None);
        self.got.insert(kind);
    }

    /// The candidate gave nothing, and never will.
    pub fn failed(&mut self, candidate: usize, failure: Failure) {
        self.attempts += 1;
        self.close(candidate);
        self.note(candidate, Some(failure));
    }

    /// The candidate is refused for now: it is tried again, or given up.
    pub fn postponed(&mut self, candidate: usize, postponed: Postponed, now: Timestamp) {
        let Some(resolver) = self.candidate(candidate).map(|location| location.resolver) else {
            return;
        };
        let Postponed {
            wait,
            is_stated,
            failure,
        } = postponed;
        let refused_by = match (failure.reason, is_stated) {
            (Reason::Preparing, is_stated) => RefusedBy::Preparation { is_stated },
            (_, true) => RefusedBy::Statement,
            (_, false) => RefusedBy::Failures,
        };
        // What was not asked is no attempt.
        self.attempts += u32::from(failure.http_status.is_some());
        let times = self.times_deferred(candidate);
        match retry::of_file(resolver, refused_by, wait, times, now) {
            (Retry::At(at), times) => {
                self.defer(candidate, at, times);
                self.note(candidate, Some(failure));
            }
            (Retry::GiveUp, _) => self.failed(candidate, failure),
        }
    }

    /// Another work is fetching the same URL: the candidate is looked at again at `at`.
    pub fn wait_for_other(&mut self, candidate: usize, at: Timestamp) {
        self.defer(candidate, at, self.times_deferred(candidate));
        let busy = Failure::new(
            Stage::File,
            Reason::DuplicateUrlGlobal,
            "another work is fetching the same URL",
            None,
        );
        self.note(candidate, Some(busy));
    }

    /// The URL is gone: archives that keep copies of it may be asked.
    pub fn gone(&mut self, url: &Url) {
        // A URL that carries a credential is not passed to others.
        if is_public(url) && !self.work.failed_urls.contains(url) {
            self.work.failed_urls.push(url.clone());
        }
    }

    /// Counts a resolver as asked: what it would say is known already.
    pub fn skip_resolver(&mut self, resolver: ResolverId) {
        if self.asked.iter().all(|asked| asked.resolver != resolver) {
            self.asked.push(Asked::new(resolver));
        }
    }

    /// Ends the work from outside.
    pub fn end_by(&mut self, reason: Reason, detail: &str) {
        self.ended_by = Some(Failure::new(Stage::Lookup, reason, detail, None));
    }

    /// Keeps why a candidate gave nothing, or that it no longer does: the latest result replaces
    /// the one before.
    fn note(&mut self, candidate: usize, failure: Option<Failure>) {
        if failure.is_some() {
            self.last.clone_from(&failure);
        }
        if let Some(candidate) = self.candidates.get_mut(candidate) {
            candidate.failure = failure;
        }
    }

    /// Returns how often a candidate was deferred in a way that counts.
    fn times_deferred(&self, candidate: usize) -> u32 {
        match self
            .candidates
            .get(candidate)
            .map(|candidate| candidate.state)
        {
            Some(Tried::Later(_, times)) => times,
            _ => 0,
        }
    }

    fn defer(&mut self, candidate: usize, until: Timestamp, times: u32) {
        self.set(candidate, Tried::Later(until, times));
    }

    fn close(&mut self, candidate: usize) {
        self.set(candidate, Tried::Yes);
    }

    fn set(&mut self, candidate: usize, state: Tried) {
        if let Some(candidate) = self.candidates.get_mut(candidate) {
            candidate.state = state;
        }
    }
}

impl Asked {
    /// Takes in an answer, or that the question was kept back.
    fn answered(&mut self, failure: Option<Failure>, refusal: &Refusal, now: Timestamp) {
        let reason = failure.as_ref().map(|failure| failure.reason);
        let is_host_failing = !refusal.has_answered && !reason.is_some_and(spares_host);
        self.failure = failure;
        self.answers += u32::from(refusal.has_answered);
        let waits_since = *self.waits_since.get_or_insert(now);
        self.again_at = None;
        let Some(wait) = refusal.wait else { return };
        self.refusals += u32::from(is_host_failing && retry::is_failure_of_host(wait));
        let lookup = Lookup {
            resolver: self.resolver,
            answers: self.answers,
            refusals: self.refusals,
            is_host_failing,
            waits_since,
        };
        if let Retry::At(at) = retry::of_lookup(lookup, wait, now) {
            self.again_at = Some(at);
        }
    }
}

/// Describes that a service knows no file. A page that was read and names none says more than a
/// service that knows nothing.
fn not_found(stage: Stage, detail: &str) -> Failure {
    let was_read = stage == Stage::Page && ![NO_PAGE, NO_DOI].contains(&detail);
    let reason = if was_read {
        Reason::HtmlOnly
    } else {
        Reason::NotFound
    };
    Failure::new(stage, reason, detail, None)
}
