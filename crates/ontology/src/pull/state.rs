//! The state of one ontology in a pull: known facts, failures, and the next step.
//!
//! This module only makes decisions: it neither sends requests nor accesses files.

mod withheld_secrets;

use docstokg_bulk::deferral::Deferral;
use docstokg_bulk::job::{self, NextStep};
use docstokg_bulk::seconds;
use docstokg_hub::clock::Timestamp;
use serde::{Deserialize, Serialize};

pub(super) use withheld_secrets::WithheldSecrets;

use super::outcome::PullOutcome;
use crate::library::TriedLocation;
use crate::lock::LockEntry;
use crate::source::{Absence, AbsenceReason, OntologyLocation};
use crate::wanted_ontology::WantedOntology;

/// Maximum number of attempts of a step that fails temporarily.
const MAX_ROUNDS: u32 = 4;

/// A step of a pull for an ontology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PullStep {
    /// Query the source at this index of [`PullState::sources`].
    LookUp(usize),
    /// Fetch the location at this index of [`PullState::locations`].
    Fetch(usize),
}

/// A [`PullStep`] that failed temporarily.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct DelayedStep {
    step: PullStep,
    #[serde(with = "seconds")]
    at: Timestamp,
    round: u32,
    host: String,
    why: String,
}

/// The state of one ontology in a pull.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PullState {
    /// The ontology that the user or an import requested.
    pub wanted: WantedOntology,
    /// The sources to query, in this order.
    pub sources: Vec<String>,
    /// The entry of the lock file, if the version of the ontology is pinned.
    pub pin: Option<LockEntry>,
    /// The [`OntologyLocation`]s found so far.
    pub locations: Vec<OntologyLocation>,
    /// The failed look-ups and fetches so far.
    pub tried: Vec<TriedLocation>,
    /// The result; `None` until the work has ended.
    pub outcome: Option<PullOutcome>,
    /// Remarks for the user, in addition to those of sources and files.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Length of the chain of imports that led to this ontology; 0 if the user requested it.
    pub import_depth: u32,
    next_source: usize,
    next_location: usize,
    later: Vec<DelayedStep>,
    /// The number of failed attempts of the running step.
    round: u32,
    /// True if the running step was deferred before.
    #[serde(default)]
    is_again: bool,
    attempts: u32,
    deferral: Option<Deferral>,
    /// The part of the state that was not persisted and is missing here.
    #[serde(default)]
    withheld: WithheldSecrets,
}

/// A step to defer: the time of the next attempt, the host to wait for, and the failure.
#[derive(Clone, Debug)]
pub(super) struct PutOff {
    pub(super) step: PullStep,
    pub(super) until: Timestamp,
    pub(super) host: String,
    pub(super) failure: TriedLocation,
    pub(super) is_sent: IsSent,
}

/// Tells whether a request was sent before a step was deferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IsSent {
    Yes,
    No,
}

impl PullState {
    /// Creates a state with the requested ontology and the sources to query.
    #[must_use]
    pub fn new(wanted: WantedOntology, sources: Vec<String>) -> Self {
        Self {
            wanted,
            sources,
            pin: None,
            locations: Vec::new(),
            tried: Vec::new(),
            outcome: None,
            notes: Vec::new(),
            import_depth: 0,
            next_source: 0,
            next_location: 0,
            later: Vec::new(),
            round: 0,
            is_again: false,
            attempts: 0,
            deferral: None,
            withheld: WithheldSecrets::Nothing,
        }
    }

    /// Returns true if `other` was created for the same request, so that it may use the findings of
    /// this state. Returns false if this state lacks URLs that were withheld, because only a new
    /// state has them.
    #[must_use]
    pub fn is_same_request(&self, other: &Self) -> bool {
        self.withheld == WithheldSecrets::Nothing
            && self.wanted == other.wanted
            && self.sources == other.sources
            && self.pin == other.pin
            && self.import_depth == other.import_depth
    }

    /// Creates the state of a pinned ontology. Its only location is that of the [`LockEntry`], and
    /// no source is queried.
    #[must_use]
    pub fn pinned(wanted: WantedOntology, entry: LockEntry) -> Self {
        let mut state = Self::new(wanted, Vec::new());
        state.locations.push(entry.location());
        state.pin = Some(entry);
        state
    }

    /// Returns the next step: known locations first, then further sources, then steps that failed
    /// temporarily.
    #[must_use]
    pub fn next(&self, now: Timestamp) -> NextStep<PullStep> {
        if self.outcome.is_some() {
            return NextStep::End;
        }
        if self.next_location < self.locations.len() {
            return NextStep::Run(PullStep::Fetch(self.next_location));
        }
        if self.next_source < self.sources.len() {
            return NextStep::Run(PullStep::LookUp(self.next_source));
        }
        match self.later.iter().min_by_key(|later| later.at) {
            Some(later) if later.at <= now => NextStep::Run(later.step),
            Some(later) => NextStep::Wait(later.at),
            None => NextStep::End,
        }
    }

    /// Begins a step. The step is not chosen again unless it is deferred.
    pub(super) fn begin(&mut self, step: PullStep) {
        let index = self.later.iter().position(|later| later.step == step);
        self.is_again = index.is_some();
        self.round = index.map_or(0, |index| self.later.remove(index).round);
        match step {
            PullStep::LookUp(source) => self.next_source = self.next_source.max(source + 1),
            PullStep::Fetch(location) => self.next_location = self.next_location.max(location + 1),
        }
    }

    /// Adds locations from a source; they are fetched next. The locations of an import may not lead
    /// into the private network, because the author of a file named the import and not the user.
    pub(super) fn found(&mut self, locations: Vec<OntologyLocation>) {
        for mut location in locations {
            location.is_user_supplied &= self.import_depth == 0;
            let is_known = self
                .locations
                .iter()
                .any(|known| known.url == location.url && known.accept == location.accept);
            if !is_known {
                self.locations.push(location);
            }
        }
    }

    /// Adds a remark for the user, unless the state has the same remark already.
    pub(super) fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    /// Records a permanent failure of a step.
    pub(super) fn failed(&mut self, failure: TriedLocation) {
        self.tried.push(failure);
    }

    /// Defers a step that failed temporarily. After [`MAX_ROUNDS`] attempts with a request, the
    /// step is not deferred again.
    pub(super) fn put_off(&mut self, put_off: PutOff) {
        // A paused host got no request and has not failed again; the run limits how long it is
        // waited for.
        let round = self.round + u32::from(put_off.is_sent == IsSent::Yes);
        let why = put_off.failure.detail.clone().unwrap_or_default();
        let is_known = |last: &TriedLocation| {
            put_off.is_sent == IsSent::No
                && (&last.resolver, &last.url) == (&put_off.failure.resolver, &put_off.failure.url)
        };
        if !self.tried.last().is_some_and(is_known) {
            self.tried.push(put_off.failure);
        }
        if round < MAX_ROUNDS {
            self.later.push(DelayedStep {
                step: put_off.step,
                at: put_off.until,
                round,
                host: put_off.host,
                why,
            });
        }
    }

    /// Queues a step again that was begun but whose requests were not sent.
    pub(super) fn undo(&mut self, step: PullStep, now: Timestamp) {
        self.later.push(DelayedStep {
            step,
            at: now,
            round: self.round,
            host: String::new(),
            why: "stopped".to_owned(),
        });
    }

    /// Returns true if the running step has been deferred before.
    pub(super) const fn is_repeated(&self) -> bool {
        self.is_again
    }

    pub(super) fn count_attempt(&mut self) {
        self.attempts += 1;
    }

    /// Returns the failure that tells the user most about why there is no file.
    #[must_use]
    pub fn failure(&self) -> Absence {
        // A failure of a location matters more than a source that does not list the ontology.
        let rank = |attempt: &&TriedLocation| match attempt.reason {
            Some(AbsenceReason::NotListed) => 0,
            Some(AbsenceReason::Credential | AbsenceReason::Unclear) => 1,
            // A fault in a downloaded file matters more than a dead URL.
            Some(AbsenceReason::HttpStatus | AbsenceReason::Unreachable) => 2,
            _ => 3,
        };
        // A later response of a source replaces temporary failures of the same source.
        let is_superseded = |at: usize, attempt: &TriedLocation| {
            let is_passing = attempt.http_status.is_some_and(|status| status >= 500)
                || attempt.reason == Some(AbsenceReason::Unreachable);
            let mut later = self.tried[at + 1..].iter();
            is_passing
                && later.any(|later| later.url.is_none() && later.resolver == attempt.resolver)
        };
        let counted = self.tried.iter().enumerate();
        let counted = counted.filter(|(at, attempt)| !is_superseded(*at, attempt));
        match counted.map(|(_, attempt)| attempt).rev().max_by_key(rank) {
            Some(attempt) => Absence {
                reason: attempt.reason.unwrap_or(AbsenceReason::Unreachable),
                detail: attempt.detail.clone().unwrap_or_default(),
            },
            None => Absence {
                reason: AbsenceReason::NotListed,
                detail: "no source was asked: name one with --resolver or prefer_source".to_owned(),
            },
        }
    }

    /// Returns the awaited host, and the reason for the wait, of the step that is deferred until
    /// `until`.
    #[must_use]
    pub fn waits_for(&self, until: Timestamp) -> Option<(&str, &str)> {
        let later = self.later.iter().find(|later| later.at == until)?;
        Some((&later.host, &later.why))
    }
}

impl job::JobState for PullState {
    fn decode(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    fn encode(&self) -> Option<String> {
        serde_json::to_string(&self.without_secrets()).ok()
    }

    fn attempts(&self) -> u32 {
        self.attempts
    }

    fn deferral(&mut self) -> &mut Option<Deferral> {
        &mut self.deferral
    }

    fn replan(&mut self) {}

    fn reopen(&mut self, until: Timestamp) {
        for later in &mut self.later {
            if later.at == until {
                later.at = Timestamp::from_micros(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wanted_ontology::OntologyId;

    fn state(sources: &[&str]) -> PullState {
        let wanted = WantedOntology::new(OntologyId::parse("hp").unwrap());
        PullState::new(
            wanted,
            sources.iter().map(|name| (*name).to_owned()).collect(),
        )
    }

    fn at(seconds: f64) -> Timestamp {
        Timestamp::from_secs_f64(seconds)
    }

    fn failure(reason: AbsenceReason) -> TriedLocation {
        TriedLocation {
            resolver: "obo".to_owned(),
            url: None,
            status: "failed".to_owned(),
            reason: Some(reason),
            detail: Some(format!("{reason:?}")),
            http_status: None,
        }
    }

    fn location(url: &str) -> OntologyLocation {
        OntologyLocation::new("obo", url.parse().unwrap())
    }

    #[test]
    fn locations_are_tried_before_the_next_source_is_asked() {
        let mut state = state(&["obo", "ols"]);
        assert_eq!(state.next(at(0.0)), NextStep::Run(PullStep::LookUp(0)));
        state.begin(PullStep::LookUp(0));
        state.found(vec![
            location("https://a.org/x"),
            location("https://b.org/x"),
            location("https://a.org/x"),
        ]);
        assert_eq!(state.next(at(0.0)), NextStep::Run(PullStep::Fetch(0)));
        state.begin(PullStep::Fetch(0));
        state.failed(failure(AbsenceReason::HttpStatus));
        assert_eq!(state.next(at(0.0)), NextStep::Run(PullStep::Fetch(1)));
        state.begin(PullStep::Fetch(1));
        state.failed(failure(AbsenceReason::HttpStatus));
        assert_eq!(state.next(at(0.0)), NextStep::Run(PullStep::LookUp(1)));
        state.begin(PullStep::LookUp(1));
        state.failed(failure(AbsenceReason::NotListed));
        assert_eq!(state.next(at(0.0)), NextStep::End);
        assert_eq!(state.failure().reason, AbsenceReason::HttpStatus);
    }

    #[test]
    fn what_failed_for_the_time_being_comes_back_a_few_times() {
        let mut state = state(&["obo"]);
        let mut now = 0.0;
        let mut runs = 0;
        loop {
            match state.next(at(now)) {
                NextStep::Run(step) => {
                    runs += 1;
                    state.begin(step);
                    state.put_off(PutOff {
                        step,
                        until: at(now + 10.0),
                        host: "a.org".to_owned(),
                        failure: failure(AbsenceReason::Unreachable),
                        is_sent: IsSent::Yes,
                    });
                }
                NextStep::Wait(until) => {
                    assert_eq!(state.waits_for(until).unwrap().0, "a.org");
                    now = until.as_secs_f64();
                }
                NextStep::End => break,
            }
            assert!(runs < 100);
        }
        assert_eq!(runs, MAX_ROUNDS);
        let text = job::JobState::encode(&state).unwrap();
        assert_eq!(
            <PullState as job::JobState>::decode(&text)
                .unwrap()
                .next(at(now)),
            NextStep::End
        );
    }

    #[test]
    fn the_address_of_an_import_is_not_the_users_own() {
        for (depth, is_trusted) in [(0, true), (1, false)] {
            let mut state = state(&["direct"]);
            state.import_depth = depth;
            state.found(vec![OntologyLocation {
                is_user_supplied: true,
                ..location("https://a.org/x")
            }]);
            assert_eq!(state.locations[0].is_user_supplied, is_trusted);
        }
    }

    #[test]
    fn a_step_that_was_not_made_stands_as_it_stood() {
        let mut state = state(&["obo"]);
        state.begin(PullStep::LookUp(0));
        state.undo(PullStep::LookUp(0), at(5.0));
        assert_eq!(state.next(at(5.0)), NextStep::Run(PullStep::LookUp(0)));
    }
}
