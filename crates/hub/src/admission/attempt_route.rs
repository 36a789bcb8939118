//! The way of a request into the sites: which lanes its attempts have to pass, how long each may
//! wait, what is reported when it goes, and the error when it is refused.

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

/// How long a retry whose wait is bounded may wait in the queue of its host.
const RETRY_ENTRY: Duration = Duration::from_secs(60);

/// A crawl delay from which on requests are not queued for it: the caller learns when to come back.
const LONG_DELAY: Duration = Duration::from_secs(600);

fn has_long_delay(target: &RoutedHop) -> bool {
    let delay = target.route.site.key.crawl_delay;
    delay.is_some_and(|delay| delay >= LONG_DELAY)
}

/// The way of requests into the sites of a hub.
pub(crate) struct AdmissionGate {
    pub(crate) config: Arc<Config>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) random: Random,
    pub(crate) registry: AdmissionRegistry,
    /// How many requests this process may have on the wire.
    pub(crate) process_slots: Arc<Semaphore>,
}

impl AdmissionGate {
    /// Returns the lane that a hop takes into its site.
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

    /// Finds what each attempt at a hop has to pass.
    ///
    /// # Errors
    /// The request costs more than a budget of its site ever has.
    pub(crate) fn route(
        &self,
        named: NamedHop,
        hop: &Hop,
        request: &Request,
    ) -> Result<RoutedHop, ErrorKind> {
        let (host, role) = (&named.host, named.role);
        let site = self.site_lane(&named, hop, request);
        // Every budget has space for a weight of one.
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

    /// Takes the permits of an attempt: of the resolver, of local connectivity, of the site.
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

    /// Says how long an attempt may wait, and for what.
    fn terms(
        &self,
        target: &RoutedHop,
        request: &Request,
        attempt: u32,
        track: &RequestTrack,
    ) -> AdmissionTerms {
        let now = self.runtime.boot();
        let is_retry = attempt > 1;
        // A request that bounds the wait for its own retry does not wait for a host that was paused
        // meanwhile: it comes back.
        let deadline = match request.retry_wait {
            Some(most) if is_retry => track.retry_deadline().min(now + most.max(RETRY_ENTRY)),
            _ => track.deadline,
        };
        // What it waited for another request is no part of that: its own begins here.
        let begun = track.started + track.journey.flight_wait;
        let deadline = match request.held_until(begun) {
            Some(until) => deadline.min(until),
            None => deadline,
        };
        let latest = match request.rate_wait {
            // A request that was let through once is not turned away on its retry: only the
            // deadline bounds that.
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

    /// Turns a refusal, or the failure of a store, into the error of the request.
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

/// Reports to the observers on which terms an attempt goes.
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
