//! The journey of one request, from top to bottom. Read this first.
//!
//! ```text
//! for each hop (the request, then each redirect it follows):
//!     name        canonicalise the URL; its host, site, role
//!     robots      may this URL be requested, and how long apart, where the request obeys robots.txt
//!     look up     the cache: a fresh answer ends the journey, nothing spent
//!     loop over attempts, each through the limits of ITS OWN host:
//!         enter   breaker, blocks and all budgets in one step: go, wait until an instant, or refused until one
//!         wait    asleep, holding no slot; then confirm at the real instant
//!         send    one request, redirects and retries of the transport off; the body read as the delivery says
//!         settle  classified once; breaker, blocks and adaptive rate are told
//!         decide  stop, or retry at an instant within the deadline
//!     follow or return
//! ```
//!
//! This file asks and acts; it computes nothing. Decisions are in `docstokg_policy`, the waiting in
//! `gate.rs`, the sending in `attempt.rs`, the reading of redirects in `redirect.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docstokg_policy::breaker::State;
use docstokg_policy::classify::{Fault, Outcome};
use docstokg_policy::host::Host;
use docstokg_policy::retry::{self, Ended, Next, Repeatable, StopReason};
use docstokg_policy::role::Role;
use docstokg_policy::site::{Patience, RefusalReason, Report};
use http::{HeaderValue, StatusCode};
use url::Url;

use crate::attempt::{Attempted, Content, Delivery, Finish, OpenBody};
use crate::cache::{self, Lookup};
use crate::error::{ErrorKind, FetchError, Refused, RefusedBy};
use crate::event::What;
use crate::gate::admission::{Doorkeeper, Waits};
use crate::gate::{Denied, Gate, Granted, Lane, Terms};
use crate::hub::Inner;
use crate::journey::Track;
use crate::redact::redact;
use crate::redirect::{self, Hop, Redirected};
use crate::request::{Follow, RateWait, Request};
use crate::response::Head;

/// How long a retry whose wait is bounded may stand in the queue of its host.
const RETRY_ENTRY: Duration = Duration::from_secs(60);

/// A hop with everything that names it.
pub(crate) struct Target {
    pub(crate) url: Url,
    pub(crate) host: Host,
    pub(crate) role: Role,
    pub(crate) gate: Arc<Gate>,
    pub(crate) lane: Arc<Lane>,
    /// The breaker of the resolver on whose behalf it is, if any.
    pub(crate) resolver: Option<(Arc<Gate>, Arc<Lane>)>,
    /// The breaker of this process's own network, where the others share theirs.
    pub(crate) network: Option<(Arc<Gate>, Arc<Lane>)>,
    pub(crate) max_body: Option<u64>,
}

/// What an attempt has passed, and must settle.
struct Passed {
    granted: Granted,
    resolver: Option<Granted>,
    network: Option<Granted>,
}

/// The end of a journey.
pub(crate) struct Arrived {
    pub(crate) head: Box<Head>,
    pub(crate) content: Content,
    pub(crate) track: Track,
}

impl Inner {
    /// Takes a request all the way: hop by hop to its final answer.
    pub(crate) async fn journey(
        &self,
        request: &Request,
        delivery: &Delivery,
    ) -> Result<Arrived, FetchError> {
        let mut track = self.begin(request);
        let mut hop = self.first_hop(request);
        let mut visited = Vec::new();
        loop {
            let told = |kind: ErrorKind, track: &mut Track| FetchError {
                url: redact(&hop.url),
                journey: track.end(Some(kind.class())),
                kind,
            };

            let mut target = self
                .name(&hop, request)
                .map_err(|kind| told(kind, &mut track))?;
            track.hop(&target.host, target.role, || What::Hop {
                url: redact(&target.url),
                method: hop.method.clone(),
                resolver: request.resolver.clone(),
                kind: request.kind.clone(),
                weight: request.weight,
                wait: request.rate_wait,
            });

            self.obey_robots(&mut target, &hop, request, &track)
                .await
                .map_err(|kind| told(kind, &mut track))?;

            match cache::look_up(&target.url) {
                Lookup::Miss => track.note(&target.host, target.role, || What::CacheMiss),
            }

            let sent = request.jar().and_then(|jar| jar.header(&hop.url));
            let (head, content) = match self
                .attempts(&target, &hop, request, delivery, &mut track)
                .await
            {
                Err(ErrorKind::Fault { .. }) if hop.or_else.is_some() => {
                    self.remember_plain(target.host);
                    hop = hop.into_stated();
                    continue;
                }
                Ok((head, _)) if hop.or_else.is_some() && is_no_answer_of_https(head.status) => {
                    hop = hop.into_stated();
                    continue;
                }
                attempted => attempted.map_err(|kind| told(kind, &mut track))?,
            };
            if let Some(jar) = request.jar() {
                jar.keep(&target.url, &head.headers);
            }

            let redirected = match request.follow {
                Follow::Redirects => {
                    let is_plain = |url: &Url| self.is_plain(url);
                    redirect::read(
                        &hop,
                        head.status,
                        &head.headers,
                        &request.secret_headers,
                        self.config.transport.allow_downgrade,
                        is_plain,
                    )
                }
                Follow::Nothing => Redirected::No,
            };
            match redirected {
                Redirected::No => {
                    return Ok(Arrived {
                        head,
                        content,
                        track,
                    });
                }
                Redirected::Refused(why) => {
                    return Err(told(
                        ErrorKind::Redirect {
                            host: target.host,
                            why,
                        },
                        &mut track,
                    ));
                }
                Redirected::To {
                    hop: next,
                    stripped,
                } => {
                    visited.push((hop.url.clone(), sent));
                    let carries = request.jar().and_then(|jar| jar.header(&next.url));
                    self.check_redirect(&target.host, &visited, &next, carries)
                        .map_err(|kind| told(kind, &mut track))?;
                    track.note(&target.host, target.role, || What::Redirect {
                        to: redact(&next.url),
                        stripped,
                    });
                    track.journey.redirects += 1;
                    hop = *next;
                }
            }
        }
    }

    /// Tries a hop until its answer is final or there is no point in trying again.
    async fn attempts(
        &self,
        target: &Target,
        hop: &Hop,
        request: &Request,
        delivery: &Delivery,
        track: &mut Track,
    ) -> Result<(Box<Head>, Content), ErrorKind> {
        let repeatable = request
            .repeatable
            .unwrap_or_else(|| Repeatable::of(&hop.method));
        let note = |track: &Track, what: What| track.note(&target.host, target.role, || what);
        let mut attempt = 1;
        let mut unprocessed = Unprocessed::default();
        loop {
            // enter, wait, confirm
            let Passed {
                granted,
                mut resolver,
                network,
            } = self.enter(target, request, attempt, track).await?;

            // send, and read the body as the delivery says
            let sent = self.runtime.boot();
            let wire = OnTheWire::show(request.on_the_wire.as_ref());
            let finish = match self
                .attempt(
                    target,
                    self.outgoing(hop, target, request),
                    &granted,
                    delivery,
                    track,
                )
                .await
            {
                Attempted::Finished(finish) => finish.judged_at(attempt),
                Attempted::Abandoned(kind) => return Err(kind),
                Attempted::Streaming {
                    head,
                    reader,
                    outcome,
                } => {
                    // Retrying ends with the headers of a stream: what it holds is settled at the
                    // end of its body.
                    let grants = std::iter::once(granted).chain(resolver).collect();
                    if let Some(network) = network {
                        network
                            .settle(
                                &Report {
                                    outcome: Outcome::Success,
                                    retry_after: None,
                                    sent,
                                },
                                track,
                            )
                            .await;
                    }
                    return Ok((
                        head,
                        Content::Open(Box::new(OpenBody {
                            reader,
                            grants,
                            outcome,
                            sent,
                            host: target.host.clone(),
                            role: target.role,
                        })),
                    ));
                }
                Attempted::Unprocessed(_)
                    if unprocessed.may_send_again(target.lane.answers.load(Ordering::Relaxed)) =>
                {
                    granted.give_back();
                    note(track, What::GivenBack);
                    continue;
                }
                // No other is served any more: that is a fault like others.
                Attempted::Unprocessed(message) => {
                    track.journey.attempts += 1;
                    Finish::Fault {
                        fault: Fault::Read,
                        message,
                    }
                }
                Attempted::Blocked => {
                    // Nothing was sent. Ask again: the patient wait for the end of the block, the
                    // others are refused.
                    granted.give_back();
                    note(track, What::GivenBack);
                    continue;
                }
            };

            // settle
            if let Finish::Fault { fault, message } = &finish {
                note(
                    track,
                    What::Fault {
                        fault: *fault,
                        message: message.clone(),
                    },
                );
            }
            let (mut class, retry_after) = (
                finish.class(&target.lane.rules.classifier),
                finish.retry_after(),
            );
            let is_tentative = hop.or_else.is_some() && matches!(finish, Finish::Fault { .. });
            class.transient &= !is_tentative;
            let ours = matches!(finish, Finish::Fault { fault, .. } if fault.is_ours());
            let report = Report {
                outcome: class.outcome,
                retry_after,
                sent,
            };
            let open_until = match network {
                // Neither does a connection that ends: only an answer, or the next attempt, tells
                // how the origin is. So does a try of https where http was stated: that it fails
                // says nothing about the site.
                network if finish.says_nothing() || is_tentative => {
                    drop((granted, resolver.take(), network));
                    None
                }
                // A failure of our own network says nothing about the origin: others who share its
                // breaker may reach it.
                Some(network) if ours => {
                    drop((granted, resolver.take()));
                    network.settle(&report, track).await
                }
                Some(network) => {
                    network
                        .settle(
                            &Report {
                                outcome: Outcome::Success,
                                retry_after: None,
                                sent,
                            },
                            track,
                        )
                        .await;
                    granted.settle(&report, track).await.or(finish.open_until())
                }
                None => granted.settle(&report, track).await.or(finish.open_until()),
            };
            if let Some(resolver) = resolver {
                resolver
                    .settle(
                        &Report {
                            outcome: class.outcome,
                            retry_after: None,
                            sent,
                        },
                        track,
                    )
                    .await;
            }
            note(
                track,
                What::Settled {
                    outcome: class.outcome,
                },
            );

            // decide
            if finish.is_final(request.is_final) {
                return finish.into_answer(&target.host);
            }
            let now = self.runtime.boot();
            let asked_until =
                retry_after.map(|asked| now + asked.min(target.lane.rules.breaker.retry_after_cap));
            let deadline = request
                .retry_wait
                .map_or(track.deadline, |most| track.deadline.min(now + most));
            let ended = Ended {
                attempt,
                class,
                repeatable,
                open_until,
                asked_until,
                deadline,
            };
            match retry::decide(&self.config.retry, &ended, now, self.random.share()) {
                Next::Stop(StopReason::Final) => return finish.into_answer(&target.host),
                Next::Stop(reason) => {
                    note(track, What::Stop { reason });
                    track.journey.stopped = Some(reason);
                    return finish.into_answer(&target.host);
                }
                Next::RetryAt(at) => {
                    drop(wire);
                    note(track, What::Retry { at, after: attempt });
                    self.runtime.sleep_until(at).await;
                    track.journey.backoff += at.since(now);
                    attempt += 1;
                }
            }
        }
    }

    /// Passes the breakers of the resolver and of our own network, where there are such, and the
    /// gate of the site.
    async fn enter(
        &self,
        target: &Target,
        request: &Request,
        attempt: u32,
        track: &mut Track,
    ) -> Result<Passed, ErrorKind> {
        let now = self.runtime.boot();
        let retrying = attempt > 1;
        // Who bounds the wait for its own retry does not wait for a host that was paused meanwhile:
        // it comes back.
        let deadline = match request.retry_wait {
            Some(most) if retrying => track.deadline.min(now + most.max(RETRY_ENTRY)),
            _ => track.deadline,
        };
        let terms = Terms {
            asked: now,
            patience: if retrying {
                Patience::Wait
            } else {
                request.patience
            },
            latest: match request.rate_wait {
                // Who has been let through once is not turned away for its retry: only the deadline
                // bounds that.
                _ if retrying => deadline,
                RateWait::Policy => now + target.lane.rules.max_delay,
                RateWait::None => now,
                RateWait::Deadline => track.deadline,
                RateWait::AtMost(most) => now + most,
            },
            deadline,
            jitter_sample: self.random.share(),
            weight: request.weight,
        };
        let mut waits = Waits::default();
        let beside = Doorkeeper {
            runtime: &self.runtime,
            process_slots: None,
            random: &self.random,
        };
        let mut passed = [None, None];
        for (place, other) in [&target.resolver, &target.network].into_iter().enumerate() {
            let Some((gate, lane)) = other else { continue };
            match gate.admit(lane, terms, &beside, track, &mut waits).await {
                Ok(granted) => passed[place] = Some(granted),
                Err(denied) => {
                    give_back(passed);
                    let resolver = request.resolver.as_deref().filter(|_| place == 0);
                    let by = resolver
                        .map_or(RefusedBy::Network, |name| RefusedBy::Resolver(name.into()));
                    return Err(self.denied(target, by, denied, waits.rate, track));
                }
            }
        }
        let door = Doorkeeper {
            runtime: &self.runtime,
            process_slots: Some(&self.process_slots),
            random: &self.random,
        };
        let admitted = target
            .gate
            .admit(&target.lane, terms, &door, track, &mut waits)
            .await;
        track.journey.rate_delay += waits.rate;
        track.journey.slot_wait += waits.slots;
        track.journey.breaker_wait += waits.breaker;
        match admitted {
            Ok(granted) => {
                let [resolver, network] = passed;
                note_entry(target, &granted, resolver.as_ref(), attempt, waits, track);
                Ok(Passed {
                    granted,
                    resolver,
                    network,
                })
            }
            Err(denied) => {
                give_back(passed);
                Err(self.denied(target, RefusedBy::Host, denied, waits.rate, track))
            }
        }
    }

    fn denied(
        &self,
        target: &Target,
        by: RefusedBy,
        denied: Denied,
        waited: Duration,
        track: &Track,
    ) -> ErrorKind {
        let refusal = match denied {
            Denied::Refused(refusal) => refusal,
            Denied::Store(error) => {
                return ErrorKind::Store {
                    host: target.host.clone(),
                    error,
                };
            }
        };
        track.note(&target.host, target.role, || What::Refused {
            refusal: refusal.clone(),
            by: by.clone(),
            waited,
        });
        let is_breaker = matches!(refusal.reason, RefusalReason::Open { .. });
        let refused = Refused::new(
            &target.host,
            target.role,
            by,
            refusal,
            self.runtime.boot(),
            self.runtime.wall(),
        );
        if is_breaker {
            ErrorKind::BreakerOpen(refused)
        } else {
            ErrorKind::RateLimited(refused)
        }
    }

    /// Refuses chains that lead nowhere. The same URL again is no circle while its cookies have
    /// changed.
    fn check_redirect(
        &self,
        host: &Host,
        visited: &[Visited],
        next: &Hop,
        carries: Option<HeaderValue>,
    ) -> Result<(), ErrorKind> {
        let refused = |why: String| {
            Err(ErrorKind::Redirect {
                host: host.clone(),
                why,
            })
        };
        if visited.contains(&(next.url.clone(), carries)) {
            return refused("it redirects in a circle".to_owned());
        }
        let most = self.config.transport.max_redirects;
        if visited.len() > most as usize {
            return refused(format!("there are more than {most} redirects"));
        }
        Ok(())
    }
}

/// A hop that was made: its URL, and the cookies that it carried.
type Visited = (Url, Option<HeaderValue>);

/// The most hosts that are remembered as serving no https.
const MOST_PLAIN_HOSTS: usize = 10_000;

impl Inner {
    /// Tells whether a host is known to serve no https.
    fn is_plain(&self, url: &Url) -> bool {
        Host::of(url).is_ok_and(|host| self.plain_hosts.read().contains(&host))
    }

    fn remember_plain(&self, host: Host) {
        let mut hosts = self.plain_hosts.write();
        if hosts.len() < MOST_PLAIN_HOSTS {
            hosts.insert(host);
        }
    }
}

/// Tells whether an answer to a tentative https request says that the site is not served there.
fn is_no_answer_of_https(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 404 | 421)
}

/// Counts how often the origin ended a connection before it looked at a request.
#[derive(Default)]
struct Unprocessed {
    answers: u32,
    in_vain: u32,
}

/// How often a request is sent again without the origin having answered any other meanwhile.
const MOST_IN_VAIN: u32 = 5;

impl Unprocessed {
    /// Tells whether it may be sent again, given how many answers others have had.
    fn may_send_again(&mut self, answers: u32) -> bool {
        self.in_vain = if answers == self.answers {
            self.in_vain + 1
        } else {
            0
        };
        self.answers = answers;
        self.in_vain < MOST_IN_VAIN
    }
}

/// Shows, while it lives, that a request is on the wire.
struct OnTheWire<'a>(Option<&'a Arc<AtomicBool>>);

impl<'a> OnTheWire<'a> {
    fn show(flag: Option<&'a Arc<AtomicBool>>) -> Self {
        if let Some(flag) = flag {
            flag.store(true, Ordering::Release);
        }
        Self(flag)
    }
}

impl Drop for OnTheWire<'_> {
    fn drop(&mut self) {
        if let Some(flag) = self.0 {
            flag.store(false, Ordering::Release);
        }
    }
}

/// Gives back what was passed before a refusal: a place among a resolver's probes must not be lost
/// to one of the host.
fn give_back(passed: [Option<Granted>; 2]) {
    for granted in passed.into_iter().flatten() {
        granted.give_back();
    }
}

/// Tells the observers on which terms an attempt goes.
fn note_entry(
    target: &Target,
    granted: &Granted,
    resolver: Option<&Granted>,
    attempt: u32,
    waits: Waits,
    track: &Track,
) {
    let permit = &granted.grant().permit;
    if let Some(refusal) = &permit.shadowed {
        track.note(&target.host, target.role, || {
            What::Shadowed((**refusal).clone())
        });
    }
    if target.lane.key.free {
        track.note(&target.host, target.role, || What::HeadSkipped);
    }
    let probe = permit.probe;
    track.note(&target.host, target.role, || What::Go {
        attempt,
        probe,
        rate_delay: waits.rate,
        slot_wait: waits.slots,
        breaker_wait: waits.breaker,
        resolver: resolver.map(|granted| {
            if granted.grant().permit.probe {
                State::HalfOpen
            } else {
                State::Closed
            }
        }),
    });
}
