//! The route of a request: the sites whose permission it needs.
//!
//! An attempt passes one or more admission queues. This module finds these queues and computes the
//! longest waits that the request accepts. After the admission, it reports the waits to the
//! observers, or converts a refusal to the error of the request.

use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::rate::LimitBasis;
use docstokg_policy::site::{Patience, RefusalReason};

use http::Method;
use tokio::sync::Semaphore;

use super::registry::AdmissionRegistry;
use super::{
    AdmissionContext, AdmissionQueue, AdmissionTerms, AdmissionWaits, AttemptDenial, BudgetSetKey,
    Permits, Route,
};
use crate::clock::{Random, Runtime};
use crate::config::Config;
use crate::error::{ErrorKind, RefusedBy, RefusedRequest};
use crate::event::EventKind;
use crate::journey::RequestTrack;
use crate::redirect::Hop;
use crate::request::{RateWait, Request};
use crate::target::{NamedHop, RoutedHop};

/// Minimum time for which a retry may wait in the queue. A shorter bound of the caller is raised to
/// this value.
const RETRY_ENTRY: Duration = Duration::from_secs(60);

/// Crawl delays of at least this length are not waited for. The request is refused instead, with
/// the time of the next try.
const LONG_DELAY: Duration = Duration::from_secs(600);

fn has_long_delay(target: &RoutedHop) -> bool {
    let delay = target.route.site.key.crawl_delay;
    delay.is_some_and(|delay| delay >= LONG_DELAY)
}

/// The admission of all requests of a hub: finds the queues of each, and takes its permits.
pub(crate) struct AdmissionGate {
    pub(crate) config: Arc<Config>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) random: Random,
    pub(crate) registry: AdmissionRegistry,
    /// The slots of this process, one for each request in flight.
    pub(crate) process_slots: Arc<Semaphore>,
}

impl AdmissionGate {
    /// Returns the [`AdmissionQueue`] of the site that a hop goes to.
    fn site_lane(&self, named: &NamedHop, hop: &Hop, request: &Request) -> AdmissionQueue {
        let (host, role) = (&named.host, named.role);
        let is_head_counted = self.config.limits.of(host, role).count_head.value;
        self.registry.lane(&BudgetSetKey {
            kind: request.kind.clone(),
            service: request.service.clone(),
            free: hop.method == Method::HEAD && !is_head_counted,
            ..BudgetSetKey::plain(host, role)
        })
    }

    /// Finds the [`Route`] of a hop: the admission queues that each of its attempts passes.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Weight`] if the request costs more than a budget of its site ever
    /// allows.
    pub(crate) fn route(
        &self,
        named: NamedHop,
        hop: &Hop,
        request: &Request,
    ) -> Result<RoutedHop, ErrorKind> {
        let (host, role) = (&named.host, named.role);
        let site = self.site_lane(&named, hop, request);
        // A weight of one fits into every budget.
        if request.weight > 1 {
            let limits = site.costs.iter().map(|cost| cost.windows.largest_weight());
            if let Some(limit) = limits.min().filter(|limit| request.weight > *limit) {
                return Err(ErrorKind::Weight {
                    host: named.host,
                    weight: request.weight,
                    limit,
                });
            }
        }
        let resolver = request.resolver.as_ref().map(|name| {
            let lane = self.registry.resolver_lane(name, host, role);
            (Arc::clone(name), lane)
        });
        let route = Route {
            resolver,
            network: self.registry.network_lane(host, role),
            site,
        };
        Ok(RoutedHop::new(named, route))
    }

    /// Takes the permits of an attempt: for its resolver, for local connectivity and for the site.
    ///
    /// # Errors
    /// Returns [`ErrorKind::BreakerOpen`] or [`ErrorKind::RateLimited`] for a refusal, and
    /// [`ErrorKind::Store`] if a store fails.
    pub(crate) async fn enter(
        &self,
        target: &RoutedHop,
        request: &Request,
        attempt: u32,
        track: &mut RequestTrack,
    ) -> Result<Permits, ErrorKind> {
        let terms = self.terms(target, request, attempt, track);
        let context = AdmissionContext {
            runtime: &self.runtime,
            process_slots: Some(&self.process_slots),
            random: &self.random,
        };
        let mut waits = AdmissionWaits::default();
        let entered = target.route.enter(terms, &context, track, &mut waits).await;
        track.journey.rate_delay += waits.rate;
        track.journey.slot_wait += waits.slots;
        track.journey.breaker_wait += waits.breaker;
        match entered {
            Ok(permits) => {
                note_entry(target, &permits, attempt, waits, track);
                Ok(permits)
            }
            Err((by, denied)) => Err(self.denied(target, by, denied, waits.rate, track)),
        }
    }

    /// Returns the [`AdmissionTerms`] of an attempt: until when it may wait for rate limits and
    /// breakers, and its weight.
    fn terms(
        &self,
        target: &RoutedHop,
        request: &Request,
        attempt: u32,
        track: &RequestTrack,
    ) -> AdmissionTerms {
        let now = self.runtime.boot();
        let is_retry = attempt > 1;
        // If the caller bounds the wait for a retry, a host that was blocked after the first
        // attempt is not waited for: the caller tries again later.
        let deadline = match request.retry_wait {
            Some(most) if is_retry => track.retry_deadline().min(now + most.max(RETRY_ENTRY)),
            _ => track.deadline,
        };
        // The wait for a shared flight does not count against the bound, which begins after that
        // wait.
        let begun = track.started + track.journey.flight_wait;
        let deadline = match request.held_until(begun) {
            Some(until) => deadline.min(until),
            None => deadline,
        };
        let latest = match request.rate_wait {
            // `rate_wait` bounds only the first attempt. A retry waits until its deadline.
            _ if is_retry => deadline,
            RateWait::Policy => now + target.route.site.rules.max_delay,
            RateWait::None => now,
            RateWait::Deadline if has_long_delay(target) => track.deadline.min(now + LONG_DELAY),
            RateWait::Deadline => deadline,
            RateWait::AtMost(most) => now + most,
        };
        AdmissionTerms {
            asked: now,
            patience: if is_retry {
                Patience::Wait
            } else {
                request.patience
            },
            latest,
            deadline,
            jitter_sample: self.random.share(),
            weight: request.weight,
            backlog: request.group.as_ref().map_or(0, |group| {
                group.backlog(&target.route.site.site.key, target.role)
            }),
        }
    }

    /// Converts an [`AttemptDenial`] into the error of the request, and reports a refusal.
    fn denied(
        &self,
        target: &RoutedHop,
        by: RefusedBy,
        denied: AttemptDenial,
        waited: Duration,
        track: &RequestTrack,
    ) -> ErrorKind {
        let refusal = match denied {
            AttemptDenial::Refused(refusal) => refusal,
            AttemptDenial::Store(error) => {
                return ErrorKind::Store {
                    host: target.host.clone(),
                    error,
                };
            }
        };
        track.note(&target.host, target.role, || EventKind::Refused {
            refusal: refusal.clone(),
            by: by.clone(),
            waited,
            basis: match &refusal.reason {
                RefusalReason::Rate {
                    window: Some(window),
                } => target.route.site.basis_of(window),
                _ => LimitBasis::Configured,
            },
        });
        let is_breaker = matches!(refusal.reason, RefusalReason::Open { .. });
        let now = (self.runtime.boot(), self.runtime.wall());
        let refused = RefusedRequest::new(&target.host, target.role, by, refusal, now);
        if is_breaker {
            ErrorKind::BreakerOpen(refused)
        } else {
            ErrorKind::RateLimited(refused)
        }
    }
}

/// Reports the admission of an attempt to the observers, with its waits.
fn note_entry(
    target: &RoutedHop,
    permits: &Permits,
    attempt: u32,
    waits: AdmissionWaits,
    track: &RequestTrack,
) {
    let note = |what: EventKind| track.note(&target.host, target.role, || what);
    let permit = &permits.site_state().permit;
    if let Some(refusal) = &permit.shadowed {
        note(EventKind::Shadowed((**refusal).clone()));
    }
    if target.route.site.key.free {
        note(EventKind::HeadSkipped);
    }
    note(EventKind::Go {
        attempt,
        probe: permit.probe,
        rate_delay: waits.rate,
        rate_window: waits.rate_window,
        slot_wait: waits.slots,
        breaker_wait: waits.breaker,
        resolver: permits.resolver_state(),
    });
}
