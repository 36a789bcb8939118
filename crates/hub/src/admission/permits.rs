//! All permits of one attempt: taken in order, settled together.
//!
//! An attempt passes the breaker of its resolver, that of this process's local connectivity, and
//! the site that it goes to. What is reported to each of them when the attempt ends is decided
//! here.

use docstokg_policy::breaker::BreakerState;
use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::role::Role;
use docstokg_policy::site::{AttemptResult, Refusal};
use docstokg_stores::StoreError;

use super::{
    AdmissionContext, AdmissionQueue, AdmissionTerms, AdmissionWaits, Consequence, HeldPermit,
    PermitState,
};
use crate::clock::BootInstant;
use crate::error::RefusedBy;
use crate::journey::RequestTrack;

use std::sync::Arc;

/// Why an attempt may not go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AttemptDenial {
    /// The breaker or the limiter says so.
    Refused(Refusal),
    /// The store that knows does not answer.
    Store(StoreError),
}

impl From<Refusal> for AttemptDenial {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<StoreError> for AttemptDenial {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// What an attempt has to pass, in this order.
#[derive(Clone)]
pub(crate) struct Route {
    /// The breaker of the resolver on whose behalf it is.
    pub(crate) resolver: Option<(Arc<str>, AdmissionQueue)>,
    /// The breaker of this process's local connectivity, where the store is shared.
    pub(crate) network: Option<AdmissionQueue>,
    /// The site itself.
    pub(crate) site: AdmissionQueue,
}

/// What an attempt was permitted. Dropped unsettled it reports nothing about the origin.
pub(crate) struct Permits {
    resolver: Option<HeldPermit>,
    network: Option<HeldPermit>,
    site: HeldPermit,
}

/// How an attempt ended, and to which breakers that is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptReport {
    /// The origin answered or failed.
    Origin(AttemptResult),
    /// The request did not leave this machine: other processes may reach the origin.
    Local(AttemptResult),
    /// Neither: the connection ended before an answer, or https was only tried.
    Unknown,
}

impl Route {
    /// Takes all permits in order, waiting as long as the terms allow. A refusal gives back what
    /// was taken before it, and says whose it is.
    pub(crate) async fn enter(
        &self,
        terms: AdmissionTerms,
        context: &AdmissionContext<'_>,
        track: &RequestTrack,
        waits: &mut AdmissionWaits,
    ) -> Result<Permits, (RefusedBy, AttemptDenial)> {
        let breaker_only = context.without_slots();
        let mut resolver = None;
        if let Some((name, lane)) = &self.resolver {
            let admitted = lane.admit(terms, &breaker_only, track, waits).await;
            resolver =
                Some(admitted.map_err(|denied| (RefusedBy::Resolver(Arc::clone(name)), denied))?);
        }
        let mut network = None;
        if let Some(lane) = &self.network {
            match lane.admit(terms, &breaker_only, track, waits).await {
                Ok(permit) => network = Some(permit),
                Err(denied) => {
                    give_back([resolver]);
                    return Err((RefusedBy::Network, denied));
                }
            }
        }
        match self.site.admit(terms, context, track, waits).await {
            Ok(site) => Ok(Permits {
                resolver,
                network,
                site,
            }),
            Err(denied) => {
                give_back([resolver, network]);
                Err((RefusedBy::Host, denied))
            }
        }
    }
}

/// Gives back what was permitted before a refusal: the lease of a resolver's probe must not be lost
/// to a refusal by the host.
fn give_back<const N: usize>(permits: [Option<HeldPermit>; N]) {
    for permit in permits.into_iter().flatten() {
        permit.give_back();
    }
}

impl Permits {
    /// Returns the permit of the site.
    pub(crate) fn site(&self) -> &HeldPermit {
        &self.site
    }

    /// Returns the state of the site's permit.
    pub(crate) fn site_state(&self) -> &Arc<PermitState> {
        self.site.state()
    }

    /// Returns how the breaker of the resolver stands, where there is one.
    pub(crate) fn resolver_state(&self) -> Option<BreakerState> {
        self.resolver.as_ref().map(|permit| {
            if permit.is_probe() {
                BreakerState::HalfOpen
            } else {
                BreakerState::Closed
            }
        })
    }

    /// Gives everything back unused: nothing was sent.
    pub(crate) fn give_back(self) {
        self.site.give_back();
        give_back([self.resolver, self.network]);
    }

    /// Reports the end of the attempt.
    pub(crate) async fn settle(self, ending: AttemptReport, track: &RequestTrack) -> Consequence {
        let report = match ending {
            // Only an answer, or the next attempt, shows the state of the origin.
            AttemptReport::Unknown => return Consequence::default(),
            AttemptReport::Local(report) => {
                if let Some(network) = &self.network {
                    return network.settle(&report, track).await;
                }
                report
            }
            AttemptReport::Origin(report) => {
                if let Some(network) = &self.network {
                    network.settle(&reached(report.sent), track).await;
                }
                report
            }
        };
        let consequence = self.site.settle(&report, track).await;
        if let Some(resolver) = &self.resolver {
            let outcome = match report.outcome {
                // A host that throttles its files says that the link was good.
                AttemptMeaning::Throttled if resolver.state().role() == Role::Artifact => {
                    AttemptMeaning::Neutral
                }
                outcome => outcome,
            };
            let report = AttemptResult {
                outcome,
                retry_after: None,
                wants_retry: false,
                maybe_refused: false,
                ..report
            };
            resolver.settle(&report, track).await;
        }
        consequence
    }

    /// The headers of a streamed answer are there: the origin was reached, and the rest is settled
    /// at the end of the body. Returns what the body holds until then.
    pub(crate) async fn stream(self, sent: BootInstant, track: &RequestTrack) -> Vec<HeldPermit> {
        if let Some(network) = &self.network {
            network.settle(&reached(sent), track).await;
        }
        std::iter::once(self.site).chain(self.resolver).collect()
    }
}

/// Reports to the breaker of local connectivity that the origin was reached.
const fn reached(sent: BootInstant) -> AttemptResult {
    AttemptResult {
        outcome: AttemptMeaning::Success,
        retry_after: None,
        sent,
        wants_retry: false,
        maybe_refused: false,
    }
}
