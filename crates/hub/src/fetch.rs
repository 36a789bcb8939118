//! The lifecycle of one request, from top to bottom. Read this first.
//!
//! ```text
//! for each hop (the request, then each redirect it follows):
//!     name        canonicalise the URL; its host and role
//!     look up     the cache: a fresh answer ends the hop, nothing spent; where another request is
//!                 fetching the same, wait for its answer
//!     route       the site, and the lanes that attempts have to pass
//!     robots      may it be requested, and how far apart, where the request obeys robots.txt
//!     loop over attempts, each through the limits of ITS OWN host:
//!         enter   breaker, blocks and all budgets in one step: go, wait until an instant, or
//!                 refused until one; what waits is asleep, holds no slot, and confirms on waking
//!         send    one request, redirects and retries of the transport off; then receive the body
//!                 as the delivery says
//!         settle  classified once; reported to breaker, blocks and adaptive rate
//!         decide  stop, or retry at an instant within the deadline
//!     keep        what may be stored, under this hop's URL; or a stale answer for a failure
//!     follow or return
//! ```
//!
//! This file asks and acts; it computes nothing. Decisions are in `docstokg_policy`, the waiting
//! and settling in `admission.rs`, sending and receiving in `exchange.rs`, redirects in
//! `redirect.rs`.

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

/// The end of a request.
pub(crate) struct FinalResponse<T> {
    pub(crate) head: Box<ResponseHead>,
    pub(crate) body: DeliveredBody<T>,
    pub(crate) track: RequestTrack,
}

/// What a hop led to.
enum HopOutcome<T> {
    /// The answer.
    Final(HopResponse<T>),
    /// Another hop.
    Next(Box<Hop>),
}

impl HubParts {
    /// Takes a request all the way: hop by hop to its final answer.
    pub(crate) async fn journey<D: Delivery>(
        &self,
        request: &Request,
        delivery: &D,
    ) -> Result<FinalResponse<D::Output>, FetchError> {
        let mut track = self.begin(request);
        let mut hop = Box::new(Hop::first(request));
        let mut visited = Vec::new();
        loop {
            let hopped = self.hop(request, delivery, &hop, &mut visited, &mut track);
            match hopped.await {
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

    /// Makes one hop: names it, judges it, tries it, and reads where it leads.
    async fn hop<D: Delivery>(
        &self,
        request: &Request,
        delivery: &D,
        hop: &Hop,
        visited: &mut Vec<VisitedHop>,
        track: &mut RequestTrack,
    ) -> Result<HopOutcome<D::Output>, ErrorKind> {
        // name
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

        // look up
        let cookies = request.jar().and_then(|jar| jar.header(&hop.url));
        let leg = HopContext {
            request,
            hop,
            target: &named,
            delivery,
            plan: None,
        };
        let plan = match self.cache.look_up(&leg, track).await? {
            CacheLookup::Answer(answered) => {
                let trail = HopTrail { visited, cookies };
                return self.follow_or_return(&leg, answered, trail, track);
            }
            CacheLookup::Ask(plan) => plan,
        };

        // route
        let mut target = self.admission.route(named, hop, request)?;

        // robots
        self.robots
            .obey(self, &mut target, (hop, request), track)
            .await?;
        track.note(&target.host, target.role, || EventKind::CacheMiss);

        // attempts
        let leg = HopContext {
            target: &target,
            plan: plan.as_deref(),
            request,
            hop,
            delivery,
        };
        let answered = self.ask(&leg, track).await;
        if self.leads_to_stated(&leg, &answered) {
            return Ok(HopOutcome::Next(Box::new(hop.clone().into_stated())));
        }
        let answered = answered?;
        if let Some(jar) = request.jar() {
            jar.keep(&target.url, &answered.head.headers);
        }
        self.cache.invalidate(&leg, &answered.head).await;

        // follow or return
        let trail = HopTrail { visited, cookies };
        self.follow_or_return(&leg, answered, trail, track)
    }

    /// Asks the origin, and lets the cache take its part: a 304 renews what is stored, a failure
    /// may be answered by a stale answer.
    async fn ask<D: Delivery>(
        &self,
        leg: &HopContext<'_, D>,
        track: &mut RequestTrack,
    ) -> Result<HopResponse<D::Output>, ErrorKind> {
        loop {
            let answered = self.attempts(leg, track).await;
            let Some(plan) = leg.plan else {
                return answered;
            };
            match self.cache.conclude(plan, leg, answered, track).await {
                ValidatedResponse::Answer(answered) => return answered,
                ValidatedResponse::AskAgain => {}
            }
        }
    }

    /// Tries a hop until its answer is final or there is no point in trying again.
    async fn attempts<D: Delivery>(
        &self,
        leg: &HopContext<'_, D>,
        track: &mut RequestTrack,
    ) -> Result<HopResponse<D::Output>, ErrorKind> {
        let (target, request) = (leg.target, leg.request);
        let mut number = 1;
        let mut unprocessed = UnprocessedCount::default();
        let mut first_sent = None;
        loop {
            // enter, wait, confirm
            let entered = self.admission.enter(target, request, number, track);
            let entered = request.unless_cancelled(entered).await;
            let permits = entered.ok_or_else(|| target.cancelled())??;

            // send, and receive the body as the delivery says
            let sent = self.runtime.boot();
            let first_sent = *first_sent.get_or_insert(sent);
            // Apart: most requests of a bulk run wait, and those need no room for it.
            let exchange = Box::pin(self.wire.exchange(leg, permits.site(), number, track));
            let exchanged = unprocessed.judge(exchange.await, target);
            track.journey.attempts += u32::from(exchanged.is_attempt());
            let finish = match exchanged {
                AttemptOutcome::Received(received) => {
                    return Ok(received.conclude(leg, permits, sent, track).await);
                }
                AttemptOutcome::Finished(finish) => finish.judged_at(number),
                AttemptOutcome::Abandoned(kind) => return Err(kind),
                // Nothing was processed. Ask again: a patient request waits for the end of the
                // block, another one is refused.
                AttemptOutcome::Unprocessed(_) | AttemptOutcome::Blocked => {
                    permits.give_back();
                    track.note(&target.host, target.role, || EventKind::GivenBack);
                    continue;
                }
            };

            // settle
            let settled = self
                .settle(leg, &finish, permits, SentAttempt { number, sent }, track)
                .await;

            // decide
            match self.decide(leg, &finish, &settled, number, track) {
                RetryDecision::Stop(_) => {
                    let last = LastAttempt {
                        target,
                        finish: &finish,
                        class: settled.class,
                        open_until: settled.open_until,
                        first_sent,
                    };
                    track.journey.host_failure = last.host_failure(self.runtime.boot());
                    return finish.into_answer(&target.host);
                }
                RetryDecision::RetryAt(at) => {
                    self.wait_for_retry(leg, at, number, track).await?;
                    number += 1;
                }
            }
        }
    }

    /// Reports how an attempt ended to everything that it passed.
    async fn settle<D>(
        &self,
        leg: &HopContext<'_, D>,
        finish: &AttemptFinish,
        permits: Permits,
        attempt: SentAttempt,
        track: &mut RequestTrack,
    ) -> SettledAttempt {
        let target = leg.target;
        if let AttemptFinish::Fault { fault, message } = finish {
            track.note(&target.host, target.role, || EventKind::Fault {
                fault: *fault,
                message: message.clone(),
            });
        }
        let mut class = finish.class(&target.route.site.rules.classifier);
        // That https fails where http was stated says nothing about the site.
        let is_tentative = leg.hop.or_else.is_some() && finish.fault().is_some();
        class.transient &= !is_tentative;
        let report = AttemptResult {
            outcome: class.outcome,
            retry_after: finish.retry_after(),
            sent: attempt.sent,
            wants_retry: leg.wants_retry(&self.config.retry, class, finish.fault(), attempt.number),
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

    /// Decides whether there is another attempt, and when.
    fn decide<D>(
        &self,
        leg: &HopContext<'_, D>,
        finish: &AttemptFinish,
        settled: &SettledAttempt,
        attempt: u32,
        track: &mut RequestTrack,
    ) -> RetryDecision {
        let (target, request) = (leg.target, leg.request);
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
            repeatable: leg.repeatable(finish.fault()),
            open_until: settled.open_until,
            is_over_budget: settled.retry_refused,
            // A request that bounds the wait for its retry belongs to a run, which has time.
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
        leg: &HopContext<'_, D>,
        at: BootInstant,
        attempt: u32,
        track: &mut RequestTrack,
    ) -> Result<(), ErrorKind> {
        let (target, request) = (leg.target, leg.request);
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

/// An attempt at a hop that was sent.
#[derive(Clone, Copy)]
struct SentAttempt {
    /// Its number, from one.
    number: u32,
    sent: BootInstant,
}

/// What an attempt meant.
struct SettledAttempt {
    class: AttemptClass,
    /// The end of the block in force.
    open_until: Option<BootInstant>,
    /// The site's budget for retries is used up.
    retry_refused: bool,
}
