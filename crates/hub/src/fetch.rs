//! The lifecycle of one request, from top to bottom. Read this first.
//!
//! ```text
//! for each hop (the request, then each redirect it follows):
//!     name        canonicalise the URL; its host, site, role
//!     robots      may it be requested, and how far apart, where the request obeys robots.txt
//!     look up     the cache: a fresh answer ends the request, nothing spent
//!     loop over attempts, each through the limits of ITS OWN host:
//!         enter   breaker, blocks and all budgets in one step: go, wait until an instant, or
//!                 refused until one; what waits is asleep, holds no slot, and confirms on waking
//!         send    one request, redirects and retries of the transport off; then receive the body
//!                 as the delivery says
//!         settle  classified once; reported to breaker, blocks and adaptive rate
//!         decide  stop, or retry at an instant within the deadline
//!     follow or return
//! ```
//!
//! This file asks and acts; it computes nothing. Decisions are in `docstokg_policy`, the waiting
//! and settling in `admission.rs`, sending and receiving in `exchange.rs`, redirects in
//! `redirect.rs`.

mod entry;
mod unprocessed;

use docstokg_policy::classify::{Class, Fault};
use docstokg_policy::retry::{self, Ended, Next, StopReason};
use docstokg_policy::site::Report;
use url::Url;

use self::entry::{cancelled, note_entry};
use self::unprocessed::Unprocessed;
use crate::admission::{AdmissionContext, Ending, Permits, Waits};
use crate::cache::{self, Lookup};
use crate::clock::BootInstant;
use crate::error::{ErrorKind, FetchError};
use crate::event::What;
use crate::exchange::{Answered, Delivered, Delivery, Exchanged, Finish, Leg};
use crate::hub::Inner;
use crate::journey::Track;
use crate::redact::redact;
use crate::redirect::{self, Hop, RedirectRules, Redirected, Visited, is_not_served};
use crate::request::{Follow, Request};
use crate::response::Head;
use crate::target::Target;

/// The end of a request.
pub(crate) struct Arrived<T> {
    pub(crate) head: Box<Head>,
    pub(crate) body: Delivered<T>,
    pub(crate) track: Track,
}

/// What a hop led to.
enum Hopped<T> {
    /// The answer.
    Final(Answered<T>),
    /// Another hop.
    Next(Box<Hop>),
}

impl Inner {
    /// Takes a request all the way: hop by hop to its final answer.
    pub(crate) async fn journey<D: Delivery>(
        &self,
        request: &Request,
        delivery: &D,
    ) -> Result<Arrived<D::Output>, FetchError> {
        let mut track = self.begin(request);
        let mut hop = Box::new(self.first_hop(request));
        let mut visited = Vec::new();
        loop {
            let hopped = self.hop(request, delivery, &hop, &mut visited, &mut track);
            match hopped.await {
                Ok(Hopped::Final(Answered { head, body })) => {
                    return Ok(Arrived { head, body, track });
                }
                Ok(Hopped::Next(next)) => hop = next,
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
        visited: &mut Vec<Visited>,
        track: &mut Track,
    ) -> Result<Hopped<D::Output>, ErrorKind> {
        // name
        let mut target = self.name(hop, request)?;
        track.hop(&target.host, target.role, || What::Hop {
            url: redact(&target.url),
            method: hop.method.clone(),
            resolver: request.resolver.clone(),
            kind: request.kind.clone(),
            weight: request.weight,
            wait: request.rate_wait,
        });

        // robots
        self.obey_robots(&mut target, hop, request, track).await?;

        // look up
        match cache::look_up(&target.url) {
            Lookup::Miss => track.note(&target.host, target.role, || What::CacheMiss),
        }

        // attempts
        let cookies = request.jar().and_then(|jar| jar.header(&hop.url));
        let leg = Leg {
            request,
            hop,
            target: &target,
            delivery,
        };
        let answered = match self.attempts(&leg, track).await {
            Err(ErrorKind::Fault { .. }) if hop.or_else.is_some() => {
                self.remember_plain(target.host);
                return Ok(Hopped::Next(Box::new(hop.clone().into_stated())));
            }
            Ok(answered) if hop.or_else.is_some() && is_not_served(answered.head.status) => {
                return Ok(Hopped::Next(Box::new(hop.clone().into_stated())));
            }
            answered => answered?,
        };
        if let Some(jar) = request.jar() {
            jar.keep(&target.url, &answered.head.headers);
        }

        // follow or return
        visited.push((hop.url.clone(), cookies));
        match self.follow(&leg, &answered.head, visited, track)? {
            Some(next) => Ok(Hopped::Next(next)),
            None => Ok(Hopped::Final(answered)),
        }
    }

    /// Tries a hop until its answer is final or there is no point in trying again.
    async fn attempts<D: Delivery>(
        &self,
        leg: &Leg<'_, D>,
        track: &mut Track,
    ) -> Result<Answered<D::Output>, ErrorKind> {
        let (target, request) = (leg.target, leg.request);
        let mut attempt = 1;
        let mut unprocessed = Unprocessed::default();
        loop {
            // enter, wait, confirm
            let entered = self.enter(target, request, attempt, track);
            let entered = request.unless_cancelled(entered).await;
            let permits = entered.ok_or_else(|| cancelled(target))??;

            // send, and receive the body as the delivery says
            let sent = self.runtime.boot();
            let finish = match self.exchange(leg, permits.site(), track).await {
                Exchanged::Received(received) => {
                    return Ok(received.conclude(leg, permits, sent, track).await);
                }
                Exchanged::Finished(finish) => finish.judged_at(attempt),
                Exchanged::Abandoned(kind) => return Err(kind),
                // Nothing was processed. Ask again: a patient request waits for the end of the
                // block, another one is refused.
                Exchanged::Unprocessed(message) if !unprocessed.may_send_again(target) => {
                    // The origin serves no other request either: that is a fault like others.
                    track.journey.attempts += 1;
                    let fault = Fault::Read;
                    Finish::Fault { fault, message }
                }
                Exchanged::Unprocessed(_) | Exchanged::Blocked => {
                    permits.give_back();
                    track.note(&target.host, target.role, || What::GivenBack);
                    continue;
                }
            };

            // settle
            let settled = self
                .settle(leg, &finish, permits, (sent, attempt), track)
                .await;

            // decide
            match self.decide(leg, &finish, &settled, attempt, track) {
                Next::Stop(_) => return finish.into_answer(&target.host),
                Next::RetryAt(at) => {
                    self.wait_for_retry(leg, at, attempt, track).await?;
                    attempt += 1;
                }
            }
        }
    }

    /// Takes the permits of an attempt: of the resolver, of local connectivity, of the site.
    async fn enter(
        &self,
        target: &Target,
        request: &Request,
        attempt: u32,
        track: &mut Track,
    ) -> Result<Permits, ErrorKind> {
        let terms = self.terms(target, request, attempt, track);
        let context = AdmissionContext {
            runtime: &self.runtime,
            process_slots: Some(&self.process_slots),
            random: &self.random,
        };
        let mut waits = Waits::default();
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

    /// Reports how an attempt ended to everything that it passed.
    async fn settle<D>(
        &self,
        leg: &Leg<'_, D>,
        finish: &Finish,
        permits: Permits,
        (sent, attempt): (BootInstant, u32),
        track: &mut Track,
    ) -> Settled {
        let target = leg.target;
        if let Finish::Fault { fault, message } = finish {
            track.note(&target.host, target.role, || What::Fault {
                fault: *fault,
                message: message.clone(),
            });
        }
        let mut class = finish.class(&target.route.site.rules.classifier);
        // That https fails where http was stated says nothing about the site.
        let is_tentative = leg.hop.or_else.is_some() && finish.fault().is_some();
        class.transient &= !is_tentative;
        let report = Report {
            outcome: class.outcome,
            retry_after: finish.retry_after(),
            sent,
            wants_retry: self.wants_retry(leg, class, attempt),
        };
        let ending = match finish.fault() {
            _ if is_tentative => Ending::Unknown,
            Some(Fault::ConnectionClosed) => Ending::Unknown,
            Some(fault) if fault.is_ours() => Ending::Local(report),
            _ => Ending::Origin(report),
        };
        let consequence = permits.settle(ending, track).await;
        let earlier = finish.consequence();
        track.note(&target.host, target.role, || What::Settled {
            outcome: class.outcome,
        });
        Settled {
            class,
            open_until: consequence.open_until.or(earlier.open_until),
            retry_refused: consequence.retry_refused || earlier.retry_refused,
        }
    }

    /// Returns whether an attempt would be repeated, time and budget aside.
    pub(crate) fn wants_retry<D>(&self, leg: &Leg<'_, D>, class: Class, attempt: u32) -> bool {
        retry::wants_retry(&self.config.retry, class, leg.repeatable(), attempt)
    }

    /// Decides whether there is another attempt, and when.
    fn decide<D>(
        &self,
        leg: &Leg<'_, D>,
        finish: &Finish,
        settled: &Settled,
        attempt: u32,
        track: &mut Track,
    ) -> Next {
        let (target, request) = (leg.target, leg.request);
        if finish.is_final(request.is_final) {
            return Next::Stop(StopReason::Final);
        }
        let now = self.runtime.boot();
        let cap = target.route.site.rules.breaker.retry_after_cap;
        let ended = Ended {
            attempt,
            class: settled.class,
            repeatable: leg.repeatable(),
            open_until: settled.open_until,
            is_over_budget: settled.retry_refused,
            asked_until: finish.retry_after().map(|asked| now + asked.min(cap)),
            deadline: request
                .retry_wait
                .map_or(track.deadline, |most| track.deadline.min(now + most)),
        };
        let next = retry::decide(&self.config.retry, &ended, now, self.random.share());
        if let Next::Stop(reason) = next
            && reason != StopReason::Final
        {
            track.note(&target.host, target.role, || What::Stop { reason });
            track.journey.stopped = Some(reason);
        }
        next
    }

    /// Sleeps until the next attempt.
    async fn wait_for_retry<D>(
        &self,
        leg: &Leg<'_, D>,
        at: BootInstant,
        attempt: u32,
        track: &mut Track,
    ) -> Result<(), ErrorKind> {
        let (target, request) = (leg.target, leg.request);
        track.note(&target.host, target.role, || What::Retry {
            at,
            after: attempt,
        });
        let now = self.runtime.boot();
        let sleep = self.runtime.sleep_until(at);
        let slept = request.unless_cancelled(sleep).await;
        slept.ok_or_else(|| cancelled(target))?;
        track.journey.backoff += at.since(now);
        Ok(())
    }

    /// Reads where an answer leads, where redirects are followed.
    fn follow<D>(
        &self,
        leg: &Leg<'_, D>,
        head: &Head,
        visited: &[Visited],
        track: &mut Track,
    ) -> Result<Option<Box<Hop>>, ErrorKind> {
        let (request, target) = (leg.request, leg.target);
        if request.follow == Follow::Nothing {
            return Ok(None);
        }
        let rules = RedirectRules {
            secret_headers: &request.secret_headers,
            allow_downgrade: self.config.transport.allow_downgrade,
            gate: request.redirect_gate.as_ref(),
            is_plain: &|url: &Url| self.is_plain(url),
        };
        let redirected = redirect::read(leg.hop, head.status, &head.headers, &rules);
        let refused = |why: String| ErrorKind::Redirect {
            host: target.host.clone(),
            why,
        };
        match redirected {
            Redirected::No => Ok(None),
            Redirected::Refused(why) => Err(refused(why)),
            Redirected::To { hop, stripped } => {
                let cookies = request.jar().and_then(|jar| jar.header(&hop.url));
                let most = self.config.transport.max_redirects;
                redirect::check_chain(visited, &hop, cookies, most).map_err(refused)?;
                track.note(&target.host, target.role, || What::Redirect {
                    to: redact(&hop.url),
                    stripped,
                });
                track.journey.redirects += 1;
                Ok(Some(hop))
            }
        }
    }
}

/// What an attempt meant.
struct Settled {
    class: Class,
    /// The end of the block in force.
    open_until: Option<BootInstant>,
    /// The site's budget for retries is used up.
    retry_refused: bool,
}
