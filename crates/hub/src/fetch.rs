//! The lifecycle of one request, from top to bottom. Read this module first.
//!
//! ```text
//! for each hop (the request, then each redirect that it follows):
//!     name        canonicalise the URL; find its host and role
//!     look up     the cache: a fresh response, or a stale one that may be served at once, ends the
//!                 hop without a permit; if another request for the same response is in flight,
//!                 wait for it
//!     route       find the site, and the admission queues that attempts pass
//!     robots      check the robots.txt, if the request obeys it; apply its crawl delay
//!     loop over attempts, each under the limits of its own host:
//!         enter   breaker, blocks and all budgets in one step: go, wait until an instant, or
//!                 be refused until one; a waiting request has no slot, and confirms when woken
//!         send    one request without redirects or retries of the transport, then receive the
//!                 body in the delivery of the request
//!         settle  classify once; report to breaker, blocks and adaptive rate. A refusal with a
//!                 Retry-After is reported as soon as its headers arrive, a delivered body by its
//!                 delivery
//!         decide  stop, or retry at an instant within the deadline
//!     keep        store the response under the URL of this hop, or serve a stale response
//!                 after a failure
//!     follow or return
//! ```
//!
//! This module decides nothing about time and limits. Decisions are in [`docstokg_policy`], waits and settlement in
//! `admission`. The module `exchange` sends and receives, and `redirect` reads redirects.

mod follow;
mod host_failure;
mod unprocessed;

use docstokg_policy::classify::{AttemptClass, Fault};
use docstokg_policy::retry::{self, EndedAttempt, RetryDecision, StopReason};
use docstokg_policy::site::{AttemptResult, Patience};

use self::follow::HopTrail;
use self::host_failure::LastAttempt;
use self::unprocessed::UnprocessedCount;
use crate::admission::{AttemptReport, Permits};
use crate::cache::{CacheLookup, ValidatedResponse};
use crate::clock::BootInstant;
use crate::error::{ErrorKind, FetchError};
use crate::event::EventKind;
use crate::exchange::{
    AttemptFinish, AttemptOutcome, DeliveredBody, Delivery, HopContext, HopResponse,
};
use crate::hub::HubParts;
use crate::journey::RequestTrack;
use crate::redact::redact;
use crate::redirect::{Hop, VisitedHop};
use crate::request::Request;
use crate::response::ResponseHead;
use crate::target::NamedHop;

/// The final response of a request, with the record of the request in its [`RequestTrack`].
pub(crate) struct FinalResponse<T> {
    pub(crate) head: Box<ResponseHead>,
    pub(crate) body: DeliveredBody<T>,
    pub(crate) track: RequestTrack,
}

/// The outcome of a hop.
enum HopOutcome<T> {
    /// The final response.
    Final(HopResponse<T>),
    /// The next hop: a redirect, or the original URL after https was tried.
    Next(Box<Hop>),
}

impl HubParts {
    /// Executes a request, hop by hop, and returns its [`FinalResponse`].
    pub(crate) async fn journey<D: Delivery>(
        &self,
        request: &Request,
        delivery: &D,
    ) -> Result<FinalResponse<D::Output>, FetchError> {
        let mut track = self.begin(request);
        let mut hop = Box::new(Hop::first(request));
        let mut visited = Vec::new();
        loop {
            let outcome = self.hop(request, delivery, &hop, &mut visited, &mut track);
            match outcome.await {
                Ok(HopOutcome::Final(HopResponse { head, body })) => {
                    return Ok(FinalResponse { head, body, track });
                }
                Ok(HopOutcome::Next(next)) => hop = next,
                Err(kind) => {
                    return Err(FetchError {
                        url: redact(&hop.url),
                        journey: track.end(Some(kind.class())),
                        kind,
                    });
                }
            }
        }
    }

    /// Executes one hop: names and routes it, makes its attempts, and returns its [`HopOutcome`].
    async fn hop<D: Delivery>(
        &self,
        request: &Request,
        delivery: &D,
        hop: &Hop,
        visited: &mut Vec<VisitedHop>,
        track: &mut RequestTrack,
    ) -> Result<HopOutcome<D::Output>, ErrorKind> {
        // Stage: name
        let named = NamedHop::of(hop, request)?;
        if visited.is_empty() {
            self.known_hosts.note_requested(&named.host, request);
        }
        track.hop(&named.host, named.role, || EventKind::Hop {
            url: redact(&named.url),
            method: hop.method.clone(),
            resolver: request.resolver.clone(),
            kind: request.kind.clone(),
            service: request.service.clone(),
            weight: request.weight,
            wait: request.rate_wait,
        });

        // Stage: look up
        let cookies = request.jar().and_then(|jar| jar.header(&hop.url));
        let context = HopContext {
            request,
            hop,
            target: &named,
            delivery,
            plan: None,
        };
        let plan = match self.cache.look_up(&context, track).await? {
            CacheLookup::Served(response) => {
                let trail = HopTrail { visited, cookies };
                return self.follow_or_return(&context, response, trail, track);
            }
            CacheLookup::Request(plan) => plan,
        };

        // Stage: route
        let mut target = self.admission.route(named, hop, request)?;

        // Stage: robots
        self.robots
            .obey(self, &mut target, (hop, request), track)
            .await?;
        track.note(&target.host, target.role, || EventKind::CacheMiss);

        // Stage: loop over attempts
        let context = HopContext {
            target: &target,
            plan: plan.as_deref(),
            request,
            hop,
            delivery,
        };
        let response = self.request_origin(&context, track).await;
        if self.leads_to_original(&context, &response) {
            return Ok(HopOutcome::Next(Box::new(hop.clone().into_original())));
        }
        let response = response?;
        if let Some(jar) = request.jar() {
            jar.keep(&target.url, &response.head.headers);
        }
        self.cache.invalidate(&context, &response.head).await;

        // Stage: follow or return
        let trail = HopTrail { visited, cookies };
        self.follow_or_return(&context, response, trail, track)
    }

    /// Sends the request of a hop to the origin, and lets the cache process the result. A 304
    /// renews the stored response, and a stale response may replace a failure.
    async fn request_origin<D: Delivery>(
        &self,
        context: &HopContext<'_, D>,
        track: &mut RequestTrack,
    ) -> Result<HopResponse<D::Output>, ErrorKind> {
        loop {
            let response = self.attempts(context, track).await;
            let Some(plan) = context.plan else {
                return response;
            };
            // Stage: keep
            match self.cache.validate(plan, context, response, track).await {
                ValidatedResponse::Final(response) => return response,
                ValidatedResponse::RequestAgain => {}
            }
        }
    }

    /// Makes attempts at a hop until its response is final or a retry is useless.
    async fn attempts<D: Delivery>(
        &self,
        context: &HopContext<'_, D>,
        track: &mut RequestTrack,
    ) -> Result<HopResponse<D::Output>, ErrorKind> {
        let (target, request) = (context.target, context.request);
        let mut number = 1;
        let mut unprocessed = UnprocessedCount::default();
        let mut first_sent = None;
        loop {
            // Stage: enter
            let entered = self.admission.enter(target, request, number, track);
            let entered = request.unless_cancelled(entered).await;
            let permits = entered.ok_or_else(|| target.cancelled())??;

            // Stage: send
            let sent = self.runtime.boot();
            let first_sent = *first_sent.get_or_insert(sent);
            // Boxed, so that a waiting request needs no memory for the exchange. Most requests of a
            // bulk run wait.
            let exchange = Box::pin(self.wire.exchange(context, permits.site(), number, track));
            let exchanged = unprocessed.judge(exchange.await, target);
            track.journey.attempts += u32::from(exchanged.is_attempt());
            let finish = match exchanged {
                AttemptOutcome::Received(received) => {
                    return Ok(received.conclude(context, permits, sent, track).await);
                }
                AttemptOutcome::Finished(finish) => finish.judged_at(number),
                AttemptOutcome::Abandoned(kind) => return Err(kind),
                // The request was not processed. It enters again: while the site is blocked, a
                // patient request then waits, and another one is refused.
                AttemptOutcome::Unprocessed(_) | AttemptOutcome::Blocked => {
                    permits.give_back();
                    track.note(&target.host, target.role, || EventKind::GivenBack);
                    continue;
                }
            };

            // Stage: settle
            let settled = self
                .settle(
                    context,
                    &finish,
                    permits,
                    SentAttempt { number, sent },
                    track,
                )
                .await;

            // Stage: decide
            match self.decide(context, &finish, &settled, number, track) {
                RetryDecision::Stop(_) => {
                    let last = LastAttempt {
                        target,
                        finish: &finish,
                        class: settled.class,
                        open_until: settled.open_until,
                        first_sent,
                    };
                    track.journey.host_failure = last.host_failure(self.runtime.boot());
                    return finish.into_response(&target.host);
                }
                RetryDecision::RetryAt(at) => {
                    self.wait_for_retry(context, at, number, track).await?;
                    number += 1;
                }
            }
        }
    }

    /// Reports the end of an attempt to the breakers and limits that it concerns.
    async fn settle<D>(
        &self,
        context: &HopContext<'_, D>,
        finish: &AttemptFinish,
        permits: Permits,
        attempt: SentAttempt,
        track: &mut RequestTrack,
    ) -> SettledAttempt {
        let target = context.target;
        if let AttemptFinish::Fault { fault, message } = finish {
            track.note(&target.host, target.role, || EventKind::Fault {
                fault: *fault,
                message: message.clone(),
            });
        }
        let mut class = finish.class(&target.route.site.rules.classifier);
        // If https was only tried, its failure does not show the state of a site whose URL has
        // http.
        let is_tentative = context.hop.or_else.is_some() && finish.fault().is_some();
        class.transient &= !is_tentative;
        let report = AttemptResult {
            outcome: class.outcome,
            retry_after: finish.retry_after(),
            sent: attempt.sent,
            wants_retry: context.wants_retry(
                &self.config.retry,
                class,
                finish.fault(),
                attempt.number,
            ),
            maybe_refused: finish.is_unavailable(),
        };
        let ending = match finish.fault() {
            _ if is_tentative => AttemptReport::Unknown,
            Some(Fault::ConnectionClosed) => AttemptReport::Unknown,
            Some(fault) if fault.is_ours() => AttemptReport::Local(report),
            _ => AttemptReport::Origin(report),
        };
        let consequence = permits.settle(ending, track).await;
        let earlier = finish.consequence();
        track.note(&target.host, target.role, || EventKind::Settled {
            outcome: class.outcome,
        });
        SettledAttempt {
            class,
            open_until: consequence.open_until.or(earlier.open_until),
            retry_refused: consequence.retry_refused || earlier.retry_refused,
        }
    }

    /// Returns the [`RetryDecision`] after an attempt: stop, or retry at an instant.
    fn decide<D>(
        &self,
        context: &HopContext<'_, D>,
        finish: &AttemptFinish,
        settled: &SettledAttempt,
        attempt: u32,
        track: &mut RequestTrack,
    ) -> RetryDecision {
        let (target, request) = (context.target, context.request);
        if finish.is_final(request.is_final) {
            return RetryDecision::Stop(StopReason::Final);
        }
        let now = self.runtime.boot();
        let group = request.group.as_ref();
        if let Some(limit) = group.and_then(|group| group.retry_limit()) {
            let silent_since = target.route.site.site.health.silent_since();
            track.begin_retries(silent_since.unwrap_or(now) + limit);
        }
        let retry_deadline = track.retry_deadline();
        let cap = target.route.site.rules.policy.breaker.retry_after_cap;
        let ended = EndedAttempt {
            attempt,
            class: settled.class,
            repeatable: context.repeatable(finish.fault()),
            open_until: settled.open_until,
            is_over_budget: settled.retry_refused,
            // A request with a bounded wait for its retry belongs to a bulk run, which can wait for
            // a probe.
            awaits_probe: request.patience == Patience::Wait || request.retry_wait.is_some(),
            is_learned: target.route.site.rules.policy.learn.is_some(),
            asked_until: finish.retry_after().map(|asked| now + asked.min(cap)),
            deadline: request
                .retry_wait
                .map_or(retry_deadline, |most| retry_deadline.min(now + most)),
        };
        let next = retry::decide(&self.config.retry, &ended, now, self.random.share());
        if let RetryDecision::Stop(reason) = next
            && reason != StopReason::Final
        {
            track.note(&target.host, target.role, || EventKind::Stop { reason });
            track.journey.stopped = Some(reason);
        }
        next
    }

    /// Sleeps until the next attempt.
    async fn wait_for_retry<D>(
        &self,
        context: &HopContext<'_, D>,
        at: BootInstant,
        attempt: u32,
        track: &mut RequestTrack,
    ) -> Result<(), ErrorKind> {
        let (target, request) = (context.target, context.request);
        track.note(&target.host, target.role, || EventKind::Retry {
            at,
            after: attempt,
        });
        let now = self.runtime.boot();
        let sleep = self.runtime.sleep_until(at);
        let slept = request.unless_cancelled(sleep).await;
        slept.ok_or_else(|| target.cancelled())?;
        track.journey.backoff += at.since(now);
        Ok(())
    }
}

/// An attempt at a hop whose request was sent.
#[derive(Clone, Copy)]
struct SentAttempt {
    /// The number of the attempt, from 1.
    number: u32,
    sent: BootInstant,
}

/// The effect of a settled attempt on the next one.
struct SettledAttempt {
    class: AttemptClass,
    /// The end of the current block of the site, if it is blocked.
    open_until: Option<BootInstant>,
    /// `true` if the retry budget of the site is used up, so that the request is not retried.
    retry_refused: bool,
}
