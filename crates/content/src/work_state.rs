//! The state of one work: its metadata, the tried steps, and the next step.
//!
//! Pure: the next step follows from the state and from `now` ([`WorkState::next`]). Candidate
//! locations that promise a wanted file come first, then pages that may name a file, then the next
//! resolver. A host that is paused defers its candidate, and the next source is tried in the
//! meantime. The work waits only when no other step is left, as `retry` determines. The state is
//! persisted between steps, so that another process can continue a deferred work.

mod deferred;
mod kind;
mod outcome;
mod plan;
mod retry;

use std::collections::BTreeSet;
use std::time::Duration;

use docstokg_bulk::deferral::Deferral;
use docstokg_bulk::seconds;
use docstokg_policy::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::location::{CandidateLocation, LocationOffer};
use crate::reason::ReasonedFailure;
use crate::resolver::order::ResolverChoice;
use crate::resolver::{ResolverId, landing};
use crate::work::{Work, is_public};
pub(crate) use deferred::AwaitedEvent;
pub use kind::ArtifactKind;

/// The limits and wishes for each work of a run.
#[derive(Clone, Debug)]
pub struct Goals {
    /// The wanted kinds of files.
    pub kinds: BTreeSet<ArtifactKind>,
    /// The resolvers to query.
    pub choice: ResolverChoice,
    /// Maximum number of requests for files and look-ups.
    pub max_attempts: u32,
    /// Maximum time of one work from its first step on, deferred or not.
    pub deadline: Option<Duration>,
}

/// The state of one work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkState {
    /// The metadata of the work.
    pub work: Work,
    /// The [`QueriedResolver`]s, with their failures.
    asked: Vec<QueriedResolver>,
    /// The [`WorkCandidate`]s, at which its files may be.
    #[serde(alias = "places")]
    candidates: Vec<WorkCandidate>,
    /// The kinds of files that were found.
    got: BTreeSet<ArtifactKind>,
    /// The time of its first step.
    #[serde(default, with = "seconds::option")]
    pub begun: Option<Timestamp>,
    /// Look-ups and fetches so far.
    pub attempts: u32,
    /// The failure of the latest candidate or look-up.
    #[serde(default)]
    pub last: Option<ReasonedFailure>,
    /// The reason outside of the steps that ended the work: its time is over, or its input is
    /// missing.
    #[serde(default)]
    ended_by: Option<ReasonedFailure>,
    /// The cause for which the work is deferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deferral: Option<Deferral>,
    /// Its input was written by others: its URLs do not lead into the private network. Stored with
    /// the item, whatever becomes of its state.
    #[serde(skip)]
    pub(crate) is_input_untrusted: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct QueriedResolver {
    resolver: ResolverId,
    /// The time from which another query is useful.
    #[serde(with = "seconds::option")]
    again_at: Option<Timestamp>,
    /// The failure of the latest query.
    #[serde(default, alias = "setback")]
    failure: Option<ReasonedFailure>,
    /// The time since which the host fails without declaring an end.
    #[serde(default, with = "seconds::option", rename = "waits_since")]
    failing_since: Option<Timestamp>,
}

impl QueriedResolver {
    const fn new(resolver: ResolverId) -> Self {
        Self {
            resolver,
            again_at: None,
            failure: None,
            failing_since: None,
        }
    }
}

/// A candidate location with the result of its fetch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct WorkCandidate {
    location: CandidateLocation,
    state: TrialState,
    /// The failure of the latest try.
    #[serde(default, alias = "setback")]
    failure: Option<ReasonedFailure>,
}

impl WorkCandidate {
    const fn new(location: CandidateLocation) -> Self {
        Self {
            location,
            state: TrialState::No,
            failure: None,
        }
    }

    fn is_ready(&self, now: Timestamp) -> bool {
        match self.state {
            TrialState::No => true,
            TrialState::Later(at, _) => at <= now,
            TrialState::Yes => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum TrialState {
    No,
    Yes,
    /// Deferred until this time. The number counts the requests for a file that is being prepared.
    Later(#[serde(with = "seconds")] Timestamp, u32),
}

/// A step of a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkStep {
    /// The fetch of this candidate.
    Fetch(usize),
    /// The reading of this page for candidates.
    Read(usize),
    /// The query to this resolver.
    Resolve(ResolverId),
}

impl WorkState {
    /// Creates the state of a new [`Work`]. A URL that the user wrote is a candidate itself.
    #[must_use]
    pub fn new(work: Work) -> Self {
        let own = work.identifiers.url.iter();
        let own = own.map(|url| {
            CandidateLocation::new(url.clone(), LocationOffer::Unknown, ResolverId::DIRECT)
        });
        let candidates: Vec<_> = own.map(WorkCandidate::new).collect();
        let has_url = !candidates.is_empty();
        let mut state = Self {
            work,
            asked: Vec::new(),
            candidates,
            got: BTreeSet::new(),
            begun: None,
            attempts: 0,
            last: None,
            ended_by: None,
            deferral: None,
            is_input_untrusted: false,
        };
        if has_url {
            // The landing page is that URL: it is fetched as a candidate, and read if the response
            // is a page.
            state.skip_resolver(landing::ID);
        }
        state
    }

    /// Returns the [`CandidateLocation`] with a number.
    #[must_use]
    pub fn candidate(&self, candidate: usize) -> Option<&CandidateLocation> {
        let candidate = self.candidates.get(candidate);
        candidate.map(|candidate| &candidate.location)
    }

    /// Returns the number of a candidate location, which is added if missing.
    pub fn candidate_at(&mut self, location: CandidateLocation) -> usize {
        let is_same = |known: &WorkCandidate| known.location.url == location.url;
        self.candidates.iter().position(is_same).unwrap_or_else(|| {
            self.candidates.push(WorkCandidate::new(location));
            self.candidates.len() - 1
        })
    }

    /// Tells whether the work has a file.
    #[must_use]
    pub fn has_file(&self) -> bool {
        !self.got.is_empty()
    }

    /// Returns the wanted kinds that the work lacks.
    #[must_use]
    pub fn missing(&self, goals: &Goals) -> BTreeSet<ArtifactKind> {
        if self.got.contains(&ArtifactKind::Other) {
            return BTreeSet::new();
        }
        goals.kinds.difference(&self.got).copied().collect()
    }

    /// Returns the state without secrets; `None` for a work whose name contains a secret. A
    /// candidate that must not be persisted is found again by another query.
    #[must_use]
    pub fn to_text(&self) -> Option<String> {
        if !self.work.is_public() {
            return None;
        }
        let mut kept = self.clone();
        let is_secret = |candidate: &WorkCandidate| !is_public(&candidate.location.url);
        let hides =
            |candidate: &WorkCandidate| candidate.state != TrialState::Yes && is_secret(candidate);
        if kept.candidates.iter().any(hides) {
            kept.asked.clear();
        }
        for candidate in &mut kept.candidates {
            let referer = candidate.location.referer.take();
            candidate.location.referer = referer.filter(is_public);
        }
        kept.candidates.retain(|candidate| !is_secret(candidate));
        kept.work.failed_urls.retain(is_public);
        serde_json::to_string(&kept).ok()
    }
}

impl docstokg_bulk::job::JobState for WorkState {
    fn decode(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    fn encode(&self) -> Option<String> {
        self.to_text()
    }

    fn attempts(&self) -> u32 {
        self.attempts
    }

    fn deferral(&mut self) -> &mut Option<Deferral> {
        &mut self.deferral
    }

    fn replan(&mut self) {
        self.plan_again();
    }

    fn reopen(&mut self, until: Timestamp) {
        self.plan_again_at(until);
    }
}
