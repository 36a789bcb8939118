//! Works that wait: for which host, and what is planned anew when circumstances have changed.

use docstokg_policy::time::Timestamp;
use url::Url;

use super::{TrialState, WorkState};
use crate::reason::{Reason, ReasonedFailure};
use crate::resolver::ResolverId;

/// What a deferred work waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AwaitedEvent<'a> {
    /// The host of this URL.
    Host(&'a Url),
    /// This resolver.
    Resolver(ResolverId),
}

impl WorkState {
    /// Plans anew what is deferred: circumstances have changed. What a server asked for still
    /// holds.
    pub fn plan_anew(&mut self) {
        let is_stated = |failure: &Option<ReasonedFailure>| {
            failure.as_ref().is_some_and(|failure| {
                let cause = failure.cause.as_ref();
                failure.reason == Reason::RateLimited || cause.is_some_and(|cause| cause.is_stated)
            })
        };
        for candidate in &mut self.candidates {
            if matches!(candidate.state, TrialState::Later(..)) && !is_stated(&candidate.failure) {
                candidate.state = TrialState::No;
            }
        }
        for asked in &mut self.asked {
            if asked.again_at.is_some() && !is_stated(&asked.failure) {
                asked.again_at = Some(Timestamp::EPOCH);
                asked.failing_since = None;
            }
        }
        self.deferral = None;
    }

    /// Plans anew what was deferred until `until`: its host may be asked again.
    pub(super) fn plan_anew_until(&mut self, until: Timestamp) {
        for candidate in &mut self.candidates {
            if matches!(candidate.state, TrialState::Later(due, _) if due == until) {
                candidate.state = TrialState::No;
            }
        }
        for asked in &mut self.asked {
            if asked.again_at == Some(until) {
                asked.again_at = Some(Timestamp::EPOCH);
            }
        }
    }

    /// Returns what the work waits for until `until`, and why.
    #[must_use]
    pub(crate) fn waits_for(
        &self,
        until: Timestamp,
    ) -> Option<(AwaitedEvent<'_>, Option<&ReasonedFailure>)> {
        let candidate = self
            .candidates
            .iter()
            .find(|candidate| matches!(candidate.state, TrialState::Later(due, _) if due == until));
        if let Some(candidate) = candidate {
            let host = AwaitedEvent::Host(&candidate.location.url);
            return Some((host, candidate.failure.as_ref()));
        }
        let mut asked = self.asked.iter();
        let asked = asked.find(|asked| asked.again_at == Some(until))?;
        Some((
            AwaitedEvent::Resolver(asked.resolver),
            asked.failure.as_ref(),
        ))
    }
}
