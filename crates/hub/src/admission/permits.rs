//! All permits of one attempt. They are taken in order and settled together.
//!
//! An attempt passes up to three breakers: of its resolver, of this process's local connectivity
//! and of the site. This module also decides to which of them the end of the attempt is reported.

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

/// The reason why an attempt was not admitted.
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

/// The admission queues that an attempt passes, in the order of the fields.
#[derive(Clone)]
pub(crate) struct Route {
    /// The resolver that the request belongs to, with the queue of its breaker; `None` without a
    /// resolver.
    pub(crate) resolver: Option<(Arc<str>, AdmissionQueue)>,
    /// The queue of the breaker of this process's local connectivity; `None` if the store is not
    /// shared.
    pub(crate) network: Option<AdmissionQueue>,
    /// The queue of the site that the request goes to.
    pub(crate) site: AdmissionQueue,
}

/// The permits of an attempt. If they are dropped unsettled, the outcome of the attempt is not
/// reported.
pub(crate) struct Permits {
    resolver: Option<HeldPermit>,
    network: Option<HeldPermit>,
    site: HeldPermit,
}

/// The end of an attempt, and thereby the breakers to which it is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptReport {
    /// The origin responded or failed.
    Origin(AttemptResult),
    /// The request failed on this machine before it reached the network. Other processes may still
    /// reach the origin.
    Local(AttemptResult),
    /// The attempt does not show the state of the origin: its connection ended before a response,
    /// or https was only tried.
    Unknown,
}

impl Route {
    /// Takes all permits in order, and waits as long as the terms allow.
    ///
    /// # Errors
    /// Returns the part that refused, with its [`AttemptDenial`]. The permits that were taken
    /// before it are given back.
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

    /// Returns the [`BreakerState`] in which the resolver's breaker admitted the request; `None`
    /// without a resolver.
    pub(crate) fn resolver_state(&self) -> Option<BreakerState> {
        self.resolver.as_ref().map(|permit| {
            if permit.is_probe() {
                BreakerState::HalfOpen
            } else {
                BreakerState::Closed
            }
        })
    }

    /// Gives all permits back unused, because nothing was sent.
    pub(crate) fn give_back(self) {
        self.site.give_back();
        give_back([self.resolver, self.network]);
    }

    /// Reports the end of the attempt to the breakers that the [`AttemptReport`] concerns.
    pub(crate) async fn settle(self, ending: AttemptReport, track: &RequestTrack) -> Consequence {
        let report = match ending {
            // Nothing is reported: only a response, or the next attempt, will show the state of the
            // origin.
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
                // The file's host throttles, so the resolver's link led to a host that works.
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

    /// Reports that the headers of a streamed response have arrived, which shows that the origin is
    /// reachable. Returns the permits that are settled at the end of the body.
    pub(crate) async fn stream(self, sent: BootInstant, track: &RequestTrack) -> Vec<HeldPermit> {
        if let Some(network) = &self.network {
            network.settle(&reached(sent), track).await;
        }
        std::iter::once(self.site).chain(self.resolver).collect()
    }
}

/// Returns the [`AttemptResult`] for the breaker of local connectivity after the origin was
/// reached.
const fn reached(sent: BootInstant) -> AttemptResult {
    AttemptResult {
        outcome: AttemptMeaning::Success,
        retry_after: None,
        sent,
        wants_retry: false,
        maybe_refused: false,
    }
}
