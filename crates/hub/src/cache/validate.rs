//! The steps after a response of the origin. A 304 renews the stored response, and a stale response
//! may replace a failure.

use std::sync::Arc;

use docstokg_policy::freshness::{
    CacheExchange, FromHead, OriginResponse, StoredResponse, Update, freshen_from_head,
    is_stale_if_error_status, update,
};
use docstokg_policy::time::Timestamp;
use http::{Method, StatusCode};

use super::flights::{FlightEnd, LedFlight, UNCACHEABLE_MEMORY};
use super::plan::{CachePlan, CacheStoreResult};
use super::{ResponseCache, ServeFailure, Sharing, StoredAnswer, StoredResponses, encode, key};
use crate::error::ErrorKind;
use crate::exchange::{Delivery, HopContext, HopResponse};
use crate::journey::{CacheUse, RequestTrack, StaleReason};
use crate::response::ResponseHead;

/// The response of a hop after the cache has processed it.
pub(crate) enum ValidatedResponse<T> {
    /// The result for the caller.
    Final(Result<HopResponse<T>, ErrorKind>),
    /// A 304 confirmed a response other than the stored one. The request must be sent again without
    /// validators.
    RequestAgain,
}

impl ResponseCache {
    /// Processes the result of a request according to its [`CachePlan`]: renews the stored
    /// response, serves a stale one, and ends the flight.
    pub(crate) async fn validate<D: Delivery>(
        &self,
        plan: &CachePlan,
        context: &HopContext<'_, D>,
        response: Result<HopResponse<D::Output>, ErrorKind>,
        track: &mut RequestTrack,
    ) -> ValidatedResponse<D::Output> {
        let Some(cache) = &self.stored else {
            return ValidatedResponse::Final(response);
        };
        let response = match response {
            Ok(response) if plan.is_confirmed_by(&response.head) => {
                match self.renew(cache, plan, &response.head).await {
                    Some(renewed) => self.serve_renewed(context, &renewed, track).await,
                    None => return ValidatedResponse::RequestAgain,
                }
            }
            response => self.or_stale(plan, context, response, track).await,
        };
        // Only the head is borrowed across the next wait, because a body that is still arriving
        // cannot be shared between threads.
        if let Some(head) = response.as_ref().ok().map(|response| &*response.head) {
            self.take_head(cache, plan, context, head).await;
            let is_new = track.journey.cache == CacheUse::None;
            if is_new
                && matches!(
                    plan.kept(),
                    CacheStoreResult::Fresh | CacheStoreResult::Stale
                )
            {
                track.note_cache(context.target, CacheUse::Stored, head.status);
            }
        }
        let is_stale = matches!(track.journey.cache, CacheUse::Stale { .. });
        if let Some(flight) = plan.flight.lock().take() {
            let end = if is_stale {
                FlightEnd::Failed
            } else {
                end_of(plan.kept(), &response)
            };
            self.end_flight(cache, flight, end);
        }
        ValidatedResponse::Final(response)
    }

    /// Renews a stored response by a 304. Returns `None` if the 304 confirms another response.
    async fn renew(
        &self,
        cache: &StoredResponses,
        plan: &CachePlan,
        head: &ResponseHead,
    ) -> Option<StoredAnswer> {
        let chosen = plan.stored.as_ref()?;
        let exchange = self.exchange_of(plan, head);
        let updated = update(&chosen.stored, exchange, &plan.question.rules, &key::hash);
        let (renewed, kept) = match updated {
            Update::Mismatch => {
                // The result is ignored, because the store itself reports its failures.
                let _ = cache.store.remove(&chosen.entry).await;
                plan.progress.lock().is_unconditional = true;
                return None;
            }
            Update::Forget(renewed, why) => {
                let _ = cache.store.remove(&chosen.entry).await;
                (renewed, CacheStoreResult::Not(why))
            }
            Update::Freshened(renewed) => {
                let is_stored = self.store_renewed(cache, chosen, &renewed).await;
                let is_fresh = renewed.lifetime(&plan.question.rules) > renewed.age(self.wall());
                let kept = match (is_stored, is_fresh) {
                    (false, _) => CacheStoreResult::Failed,
                    (true, true) => CacheStoreResult::Fresh,
                    (true, false) => CacheStoreResult::Stale,
                };
                (renewed, kept)
            }
        };
        plan.progress.lock().kept = kept;
        Some(StoredAnswer {
            entry: Arc::clone(&chosen.entry),
            stored: renewed.into(),
        })
    }

    async fn store_renewed(
        &self,
        cache: &StoredResponses,
        chosen: &StoredAnswer,
        renewed: &StoredResponse,
    ) -> bool {
        match encode(renewed) {
            Some(metadata) => cache.store.update_metadata(&chosen.entry, metadata).await,
            None => false,
        }
    }

    async fn serve_renewed<D: Delivery>(
        &self,
        context: &HopContext<'_, D>,
        renewed: &StoredAnswer,
        track: &mut RequestTrack,
    ) -> Result<HopResponse<D::Output>, ErrorKind> {
        match self.serve(context, renewed).await {
            Ok(response) => {
                track.note_cache(context.target, CacheUse::Revalidated, response.head.status);
                Ok(response)
            }
            Err(ServeFailure::Failed(kind)) => Err(kind),
            Err(ServeFailure::Damaged) => Err(ErrorKind::Fault {
                host: context.target.host.clone(),
                fault: docstokg_policy::classify::Fault::Read,
                cause: "the stored answer turned out to be damaged after its validation"
                    .to_owned()
                    .into(),
            }),
        }
    }

    /// Returns a stale response instead of a failure of the origin (RFC 5861 section 4), if one may
    /// be served; otherwise the failure.
    async fn or_stale<D: Delivery>(
        &self,
        plan: &CachePlan,
        context: &HopContext<'_, D>,
        response: Result<HopResponse<D::Output>, ErrorKind>,
        track: &mut RequestTrack,
    ) -> Result<HopResponse<D::Output>, ErrorKind> {
        let reason = match &response {
            Ok(response) if is_stale_if_error_status(response.head.status) => StaleReason::Error,
            Err(ErrorKind::Fault { .. }) => StaleReason::Error,
            Err(ErrorKind::BreakerOpen(_)) => StaleReason::BreakerOpen,
            _ => return response,
        };
        let now = self.wall();
        // A relay whose origin cannot be reached counts as disconnected (RFC 9111 section 4.2.4).
        let is_disconnected =
            context.request.relay.is_some() && matches!(response, Err(ErrorKind::Fault { .. }));
        let may_serve =
            plan.may_serve.on_error(now) || (is_disconnected && plan.may_serve.when_disconnected);
        let Some(chosen) = plan.stored.as_ref().filter(|_| may_serve) else {
            return response;
        };
        match self.serve(context, chosen).await {
            Ok(stale) => {
                let age = chosen.stored.age(now);
                let used = CacheUse::Stale { age, reason };
                track.note_cache(context.target, used, stale.head.status);
                Ok(stale)
            }
            Err(_) => response,
        }
    }

    /// Renews or drops the stored response to GET, depending on a response to HEAD (RFC 9111
    /// section
    /// 4.3.5).
    async fn take_head<D>(
        &self,
        cache: &StoredResponses,
        plan: &CachePlan,
        context: &HopContext<'_, D>,
        head: &ResponseHead,
    ) {
        let Some(chosen) = plan.stored.as_ref() else {
            return;
        };
        if context.hop.method != Method::HEAD || plan.progress.lock().times.is_none() {
            return;
        }
        let exchange = self.exchange_of(plan, head);
        let rules = &plan.question.rules;
        match freshen_from_head(&chosen.stored, exchange, rules, &key::hash) {
            FromHead::Freshened(renewed) => {
                self.store_renewed(cache, chosen, &renewed).await;
            }
            FromHead::Outdated => {
                let _ = cache.store.remove(&chosen.entry).await;
            }
            FromHead::Nothing => {}
        }
    }

    fn exchange_of<'a>(&self, plan: &'a CachePlan, head: &'a ResponseHead) -> CacheExchange<'a> {
        let now = self.wall();
        let times = docstokg_policy::freshness::ExchangeTimes {
            sent: now,
            received: now,
        };
        CacheExchange {
            request: plan.question.request(),
            response: OriginResponse {
                status: head.status,
                headers: &head.headers,
            },
            times: plan.progress.lock().times.unwrap_or(times),
        }
    }

    fn wall(&self) -> Timestamp {
        self.runtime.wall()
    }

    /// Ends a flight. If the response is not reusable, remembers the key of the flight.
    fn end_flight(&self, cache: &StoredResponses, flight: LedFlight, end: FlightEnd) {
        if end == FlightEnd::Uncacheable {
            let now = self.runtime.boot();
            cache.flights.remember_uncacheable(flight.key(), now);
            if cache.sharing == Sharing::Processes {
                let until = now + UNCACHEABLE_MEMORY;
                // The call only queues the write, so there is nothing to wait for.
                drop(cache.store.remember_uncacheable(&flight.key(), until));
            }
        }
        flight.end(end);
    }
}

/// Returns the [`FlightEnd`] that a result means for the requests that wait for it.
fn end_of<T>(kept: CacheStoreResult, response: &Result<HopResponse<T>, ErrorKind>) -> FlightEnd {
    let failed =
        |status: StatusCode| status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    match (kept, response) {
        (CacheStoreResult::Fresh, _) => FlightEnd::Stored,
        (_, Ok(response)) if failed(response.head.status) => FlightEnd::Failed,
        (_, Ok(_)) => FlightEnd::Uncacheable,
        (_, Err(ErrorKind::Fault { .. })) => FlightEnd::Failed,
        // A refusal, a deadline or a cancellation concerns only the leader.
        (_, Err(_)) => FlightEnd::Abandoned,
    }
}
