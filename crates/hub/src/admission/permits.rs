//! All permits of one attempt: taken in order, settled together.
//!
//! An attempt passes three breakers: of its resolver, of this process's local connectivity, and of
//! the site. This module also decides which of them learns of the end of the attempt.

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

/// The reason why an attempt is not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AttemptDenial {
    /// The breaker or the limiter refuses the attempt.
    Refused(Refusal),
    /// The store of limits and breakers fails.
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

/// The admission queues that an attempt passes, in this order.
#[derive(Clone)]
pub(crate) struct Route {
    /// The breaker of the resolver that the request belongs to, if any.
    pub(crate) resolver: Option<(Arc<str>, AdmissionQueue)>,
    /// The breaker of this process's local connectivity, if the store is shared.
    pub(crate) network: Option<AdmissionQueue>,
    /// The queue of the site that the request goes to.
    pub(crate) site: AdmissionQueue,
}

/// The permits of an attempt. If dropped unsettled, they report nothing about the origin.
pub(crate) struct Permits {
    resolver: Option<HeldPermit>,
    network: Option<HeldPermit>,
    site: HeldPermit,
}

/// The end of an attempt, and the breakers that it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptReport {
    /// The origin responded or failed.
    Origin(AttemptResult),
    /// The request did not leave this machine: other processes may still reach the origin.
    Local(AttemptResult),
    /// The state of the origin is unknown: the connection ended before a response, or https was
    /// only tried.
    Unknown,
}

impl Route {
    /// Takes all permits in order, and waits as long as the terms allow.
    ///
    /// # Errors
    /// Returns the refusing party and its [`AttemptDenial`]. The permits taken before the refusal
    /// are given back.
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

/// Gives back the permits that were taken before a refusal, so that a refusal by the host does not
/// lose the lease of a resolver's probe.
fn give_back<const N: usize>(permits: [Option<HeldPermit>; N]) {
    for permit in permits.into_iter().flatten() {
        permit.give_back();
    }
}

impl Permits {
    /// Returns the [`HeldPermit`] of the site.
    pub(crate) fn site(&self) -> &HeldPermit {
        &self.site
    }

    /// Returns the [`PermitState`] of the site's permit.
    pub(crate) fn site_state(&self) -> &Arc<PermitState> {
        self.site.state()
    }

    /// Returns the [`BreakerState`] of the resolver, if the request belongs to one.
    pub(crate) fn resolver_state(&self) -> Option<BreakerState> {
        self.resolver.as_ref().map(|permit| {
            if permit.is_probe() {
                BreakerState::HalfOpen
            } else {
                BreakerState::Closed
            }
        })
    }

    /// Gives all permits back unused: nothing was sent.
    pub(crate) fn give_back(self) {
        self.site.give_back();
        give_back([self.resolver, self.network]);
    }

    /// Reports the end of the attempt to the breakers that the [`AttemptReport`] concerns.
    pub(crate) async fn settle(self, ending: AttemptReport, track: &RequestTrack) -> Consequence {
        let report = match ending {
            // Only a response, or the next attempt, shows the state of the origin.
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
                // A host that throttles its files shows that the resolver's link was correct.
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

    /// Reports that the headers of a streamed response have arrived, so that the origin is
    /// reachable. Returns the permits that the body settles at its end.
    pub(crate) async fn stream(self, sent: BootInstant, track: &RequestTrack) -> Vec<HeldPermit> {
        if let Some(network) = &self.network {
            network.settle(&reached(sent), track).await;
        }
        std::iter::once(self.site).chain(self.resolver).collect()
    }
}

/// Returns the [`AttemptResult`] of an origin that was reached, for the breaker of local
/// connectivity.
const fn reached(sent: BootInstant) -> AttemptResult {
    AttemptResult {
        outcome: AttemptMeaning::Success,
        retry_after: None,
        sent,
        wants_retry: false,
        maybe_refused: false,
    }
}
