//! The choice of the next step: a pure function of the state and of `now`.

use std::collections::BTreeSet;
use std::sync::Arc;

use docstokg_bulk::job::NextStep;
use docstokg_policy::time::Timestamp;

use super::{ArtifactKind, Goals, QueriedResolver, TrialState, WorkCandidate, WorkState, WorkStep};
use crate::location::LocationOffer;
use crate::reason::{AttemptStage, Reason, ReasonedFailure, decisive};
use crate::resolver::order::{PlannedResolver, ResolverPlan, is_planned, order};
use crate::resolver::{Resolver, ResolverCost, ResolverId, landing, spec};

/// The steps to choose from.
struct StepChoices<'a> {
    state: &'a WorkState,
    missing: BTreeSet<ArtifactKind>,
    planned: Vec<PlannedResolver>,
    now: Timestamp,
}

impl WorkState {
    /// Returns the next step, or the end of the work.
    #[must_use]
    pub fn next(
        &self,
        goals: &Goals,
        resolvers: &[Arc<dyn Resolver>],
        now: Timestamp,
    ) -> NextStep<WorkStep> {
        let next = self.plan(goals, resolvers, now);
        if self.is_out_of_time(goals, next, now) {
            NextStep::End
        } else {
            next
        }
    }

    /// Returns the next step, as long as time is left.
    fn plan(
        &self,
        goals: &Goals,
        resolvers: &[Arc<dyn Resolver>],
        now: Timestamp,
    ) -> NextStep<WorkStep> {
        let missing = self.missing(goals);
        let is_over = self.ended_by.is_some() || self.attempts >= goals.max_attempts;
        if is_over || missing.is_empty() {
            return NextStep::End;
        }
        // Most works proceed from one candidate to the next, so resolvers are ordered only when no
        // file is ready.
        let file = |candidate: &WorkCandidate| promises(candidate.location.offers, &missing);
        if let Some(ready) = self.position(|candidate| candidate.is_ready(now) && file(candidate)) {
            return NextStep::Run(WorkStep::Fetch(ready));
        }
        let choices = StepChoices {
            state: self,
            missing,
            planned: order(&self.work, &goals.choice, resolvers),
            now,
        };
        let step = choices
            .quick_lookup()
            .or_else(|| choices.ready_page())
            .or_else(|| choices.any_lookup());
        match step {
            Some(step) => NextStep::Run(step),
            None => choices
                .earliest_retry()
                .map_or(NextStep::End, NextStep::Wait),
        }
    }

    fn position(&self, is_chosen: impl Fn(&WorkCandidate) -> bool) -> Option<usize> {
        self.candidates.iter().position(is_chosen)
    }

    /// Tells whether the time limit of the work is reached, or will be before the next step is due.
    fn is_out_of_time(&self, goals: &Goals, next: NextStep<WorkStep>, now: Timestamp) -> bool {
        let (Some(most), Some(begun)) = (goals.deadline, self.begun) else {
            return false;
        };
        match next {
            NextStep::Run(_) => now.since(begun) > most,
            NextStep::Wait(until) => until.since(begun) > most,
            NextStep::End => false,
        }
    }

    /// Returns the reason why a finished work has no file. A reached limit or a reason outside of
    /// the steps comes first, then the obstacle between the user and the file.
    #[must_use]
    pub fn failure(
        &self,
        goals: &Goals,
        resolvers: &[Arc<dyn Resolver>],
        now: Timestamp,
    ) -> ReasonedFailure {
        let next = self.plan(goals, resolvers, now);
        if self.is_out_of_time(goals, next, now) {
            let last = self.last.as_ref();
            let last =
                last.map_or_else(String::new, |last| format!(", the latest: {}", last.detail));
            let seconds = goals.deadline.unwrap_or_default().as_secs();
            let detail = format!("the {seconds} s for this work are over{last}");
            return ReasonedFailure::new(AttemptStage::Lookup, Reason::Deadline, &detail, None);
        }
        let mut failure = self.decisive();
        if self.attempts >= goals.max_attempts {
            failure.detail = format!("after {} attempts: {}", self.attempts, failure.detail);
            // A refusal counts as the obstacle, however often it occurred. Without a refusal, the
            // bound counts.
            if !failure.is_refusal() {
                failure.reason = Reason::MaxAttemptsReached;
            }
        }
        failure
    }

    /// Names the sources that responded and know no file; `None` for fewer than two sources.
    fn is_unknown_everywhere(&self) -> Option<String> {
        let asked = self.asked.iter();
        let knows_nothing = |asked: &&QueriedResolver| {
            let failure = asked.failure.as_ref();
            failure.is_some_and(|failure| failure.reason == Reason::NotFound)
        };
        let titles: Vec<&str> = asked
            .filter(knows_nothing)
            .map(|asked| {
                spec(asked.resolver).map_or(asked.resolver.as_str(), |spec| spec.source.title)
            })
            .collect();
        (titles.len() > 1).then(|| format!("none of {} names an open copy", titles.join(", ")))
    }

    /// Returns the decisive [`ReasonedFailure`]: the reason outside of the steps that ended the
    /// work, or else the obstacle between the user and the file.
    #[must_use]
    pub fn decisive(&self) -> ReasonedFailure {
        let candidates = self.candidates.iter();
        let candidates = candidates.filter_map(|candidate| candidate.failure.as_ref());
        let asked = self.asked.iter().filter_map(|asked| asked.failure.as_ref());
        let found = self
            .ended_by
            .as_ref()
            .or_else(|| decisive(candidates.chain(asked)))
            .or(self.last.as_ref());
        let unknown = || {
            let detail = "no source knows where its file is";
            ReasonedFailure::new(AttemptStage::Lookup, Reason::NotFound, detail, None)
        };
        let mut found = found.cloned().unwrap_or_else(unknown);
        if found.reason == Reason::NotFound && self.ended_by.is_none() {
            found.detail = self.is_unknown_everywhere().unwrap_or(found.detail);
        }
        // The status of a service is not that of the site with the file.
        let of_service = matches!(
            found.reason,
            Reason::HttpStatus
                | Reason::Timeout
                | Reason::RequestException
                | Reason::NameNotFound
                | Reason::InternalAddress
        );
        if found.stage == AttemptStage::Lookup && of_service {
            found.reason = if matches!(found.http_status, Some(404 | 410)) {
                Reason::NotFound
            } else {
                Reason::LookupFailed
            };
            found.http_status = None;
        }
        found
    }
}

/// Tells whether a [`LocationOffer`] may be of a missing kind.
fn promises(offers: LocationOffer, missing: &BTreeSet<ArtifactKind>) -> bool {
    match offers {
        LocationOffer::Pdf => missing.contains(&ArtifactKind::Pdf),
        LocationOffer::Xml => missing.contains(&ArtifactKind::Xml),
        LocationOffer::Html => missing.contains(&ArtifactKind::Html),
        LocationOffer::Unknown => true,
        LocationOffer::Landing | LocationOffer::Archive => false,
    }
}

impl StepChoices<'_> {
    /// Returns the look-up with a quick resolver, which reads no page.
    fn quick_lookup(&self) -> Option<WorkStep> {
        self.lookup(|name| spec(name).is_some_and(|spec| spec.cost == ResolverCost::Api))
    }

    fn any_lookup(&self) -> Option<WorkStep> {
        self.lookup(|_| true)
    }

    fn lookup(&self, is_wanted: impl Fn(ResolverId) -> bool) -> Option<WorkStep> {
        let chosen = self.planned.iter().find(|planned| {
            let name = planned.resolver;
            planned.plan == ResolverPlan::Ask
                && self.is_open_to_ask(name)
                && self.is_useful(name)
                && is_wanted(name)
        });
        chosen.map(|planned| WorkStep::Resolve(planned.resolver))
    }

    /// Returns the reading of a page that may name candidates.
    fn ready_page(&self) -> Option<WorkStep> {
        let is_ready = |candidate: &WorkCandidate| {
            candidate.is_ready(self.now) && self.is_page_to_read(candidate)
        };
        self.state.position(is_ready).map(WorkStep::Read)
    }

    /// Returns the earliest time at which a deferred step may be tried.
    fn earliest_retry(&self) -> Option<Timestamp> {
        let candidates = self.state.candidates.iter().filter(|candidate| {
            promises(candidate.location.offers, &self.missing) || self.is_page_to_read(candidate)
        });
        let candidates = candidates.filter_map(|candidate| match candidate.state {
            TrialState::Later(at, _) => Some(at),
            _ => None,
        });
        let asked = self.state.asked.iter().filter(|asked| {
            is_planned(&self.planned, asked.resolver) && self.is_useful(asked.resolver)
        });
        candidates
            .chain(asked.filter_map(|asked| asked.again_at))
            .min()
    }

    fn is_open_to_ask(&self, name: ResolverId) -> bool {
        let asked = self.state.asked.iter().find(|asked| asked.resolver == name);
        asked.is_none_or(|asked| asked.again_at.is_some_and(|at| at <= self.now))
    }

    /// Tells whether a resolver is of use. For a work with a file, only resolvers with other kinds
    /// are.
    fn is_useful(&self, name: ResolverId) -> bool {
        let has_other_kinds = spec(name).is_some_and(|spec| spec.has_xml);
        !self.state.has_file() || (self.missing.contains(&ArtifactKind::Xml) && has_other_kinds)
    }

    fn is_page_to_read(&self, candidate: &WorkCandidate) -> bool {
        candidate.location.offers == LocationOffer::Landing
            && is_planned(&self.planned, landing::ID)
            && !self.state.has_file()
    }
}
