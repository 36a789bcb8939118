//! Deferred works: the host that each waits for, and the planning of deferred steps after a change
//! of circumstances.

use docstokg_policy::time::Timestamp;
use url::Url;

use super::{TrialState, WorkState};
use crate::reason::{Reason, ReasonedFailure};
use crate::resolver::ResolverId;

/// The event that a deferred work waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AwaitedEvent<'a> {
    /// The host of this URL is available again.
    Host(&'a Url),
    /// This resolver is available again.
    Resolver(ResolverId),
}

impl WorkState {
    /// Plans deferred steps again, because circumstances have changed. A wait that a server
    /// declared still applies.
    pub fn plan_again(&mut self) {
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

    /// Plans again the steps that were deferred until `until`, because their host is available.
    pub(super) fn plan_again_at(&mut self, until: Timestamp) {
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

    /// Returns the [`AwaitedEvent`] and the cause of the wait that ends at `until`.
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
