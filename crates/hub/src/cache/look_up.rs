//! The look-up of a hop. Its result is a stored response, or a plan for the request to the origin.
//!
//! A look-up may join a flight of equal requests. When the flight has ended, the look-up is
//! repeated.

use std::sync::Arc;

use docstokg_policy::freshness::{
    CacheMode, FreshnessRules, Overrides, ReuseDecision, SetCookie, StaleUse, Validators, reuse,
    select,
};
use http::header::RANGE;
use http::{HeaderMap, Method};

use super::flights::{CacheFlightRole, FlightEnd, LedFlight};
use super::key::KeySpace;
use super::lease::{LeaseClaim, WatchedKeys};
use super::plan::{CachePlan, CacheQuestion, forward_of};
use super::{ResponseCache, ServeFailure, Sharing, StoredAnswer, StoredResponses, decode, key};
use crate::clock::{Timestamp, before};
use crate::config::CacheAccess;
use crate::error::ErrorKind;
use crate::exchange::{Delivery, HopContext, HopResponse};
use crate::journey::{CacheUse, ForwardReason, RequestTrack, StaleReason};
use crate::target::NamedHop;

/// Maximum number of damaged stored bodies that a look-up skips before its request bypasses the
/// cache.
const MAX_DAMAGED: u32 = 3;

/// The result of the look-up of a hop.
pub(crate) enum CacheLookup<T> {
    /// A stored response: the request needs no permit.
    Served(HopResponse<T>),
    /// The request has to be sent. The [`CachePlan`] says what the cache does with the response;
    /// without a plan, nothing.
    Request(Option<Box<CachePlan>>),
}

/// The way in which a stored response may be used for a request.
enum StoredResponseUse {
    Serve(StoredAnswer, CacheUse),
    Ask(Box<CachePlan>, FlightPatience),
    Bypass,
    NotCached,
}

/// The permission to wait for the flight of another request, or not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FlightPatience {
    Allowed,
    No,
}

impl FlightPatience {
    fn of<D: Delivery>(context: &HopContext<'_, D, NamedHop>, access: CacheAccess) -> Self {
        // A streamed body is stored only as fast as its reader reads it, so other requests do not
        // wait for it. A relay is an exception, because it reads as fast as the body arrives.
        let is_slow = D::STREAMS && context.request.relay.is_none();
        // A response to HEAD is not stored, and cannot be reused for GET.
        let is_head = context.hop.method == Method::HEAD;
        if access == CacheAccess::Refresh || is_slow || is_head || context.request.is_solo {
            Self::No
        } else {
            Self::Allowed
        }
    }
}

impl ResponseCache {
    /// Returns the [`CacheAccess`] that a request chooses, otherwise the configured one.
    fn access_of(&self, request: &crate::request::Request) -> CacheAccess {
        request.cache.unwrap_or(self.config.cache.access)
    }

    /// Looks up a hop, and waits for an equal request in flight if there is one.
    ///
    /// # Errors
    /// Returns [`ErrorKind::NotCached`] if only a stored response is allowed and the cache has
    /// none. Returns the error of a stored response that cannot be delivered.
    pub(crate) async fn look_up<D: Delivery>(
        &self,
        context: &HopContext<'_, D, NamedHop>,
        track: &mut RequestTrack,
    ) -> Result<CacheLookup<D::Output>, ErrorKind> {
        let access = self.access_of(context.request);
        let has_answers = [Method::GET, Method::HEAD].contains(&context.hop.method);
        let usable = self.stored.as_ref().filter(|_| {
            access != CacheAccess::Bypass
                && has_answers
                // A request with a body may be a query, and the key does not include its body.
                && context.hop.body.is_empty()
                && context.delivery.may_be_cached()
                && (context.request.relay.is_some() || !context.hop.headers.contains_key(RANGE))
        });
        let plan = if let Some(cache) = usable {
            match self.consult(cache, context, access, track).await? {
                CacheLookup::Request(plan) => plan,
                answer @ CacheLookup::Served(_) => return Ok(answer),
            }
        } else {
            track.journey.forward = Some(if has_answers {
                ForwardReason::Bypass
            } else {
                ForwardReason::Method
            });
            None
        };
        if access == CacheAccess::Offline {
            return Err(not_cached(context));
        }
        Ok(CacheLookup::Request(plan))
    }

    async fn consult<D: Delivery>(
        &self,
        cache: &StoredResponses,
        context: &HopContext<'_, D, NamedHop>,
        access: CacheAccess,
        track: &mut RequestTrack,
    ) -> Result<CacheLookup<D::Output>, ErrorKind> {
        let mut led: Option<LedFlight> = None;
        let mut damaged = 0;
        loop {
            let question = self.question(cache, context);
            let key_changes = cache.store.changes(&question.key);
            let found = cache.find(&question).await;
            match self.judge(cache, question, found, access, context, track) {
                StoredResponseUse::Bypass => return Ok(CacheLookup::Request(None)),
                StoredResponseUse::NotCached => return Err(not_cached(context)),
                StoredResponseUse::Serve(answer, used) => {
                    match self.serve(context, &answer).await {
                        Ok(answered) => {
                            if let Some(led) = led {
                                led.end(FlightEnd::Stored);
                            }
                            track.journey.forward = None;
                            track.note_cache(context.target, used, answered.head.status);
                            return Ok(CacheLookup::Served(answered));
                        }
                        // The store has dropped the damaged entry, so that the next look-up finds
                        // another, or none.
                        Err(ServeFailure::Damaged) if damaged < MAX_DAMAGED => damaged += 1,
                        Err(ServeFailure::Damaged) => return Ok(CacheLookup::Request(None)),
                        Err(ServeFailure::Failed(kind)) => return Err(kind),
                    }
                }
                StoredResponseUse::Ask(plan, FlightPatience::No) => {
                    return Ok(CacheLookup::Request(Some(plan)));
                }
                StoredResponseUse::Ask(plan, FlightPatience::Allowed) => {
                    let CacheQuestion { key, headers, .. } = &plan.question;
                    let flight = key::of_flight(key, headers, context.request.ignored_fields());
                    // The counts are read before the flight is joined, so that a change by its end
                    // is not missed.
                    let watched = WatchedKeys {
                        key,
                        flight: &flight,
                        key_changes,
                        flight_changes: cache.store.changes(&flight),
                    };
                    match self.fly(cache, &watched, &mut led, context, track).await? {
                        FlightDecision::LookAgain => {}
                        FlightDecision::Alone => return Ok(CacheLookup::Request(Some(plan))),
                        FlightDecision::Lead => {
                            *plan.flight.lock() = led;
                            return Ok(CacheLookup::Request(Some(plan)));
                        }
                    }
                }
            }
        }
    }

    /// Joins the flight of a request that has no usable stored response.
    async fn fly<D: Delivery>(
        &self,
        cache: &StoredResponses,
        watched: &WatchedKeys<'_>,
        led: &mut Option<LedFlight>,
        context: &HopContext<'_, D, NamedHop>,
        track: &mut RequestTrack,
    ) -> Result<FlightDecision, ErrorKind> {
        if led.is_none() {
            match cache.flights.join(*watched.flight, self.runtime.boot()) {
                CacheFlightRole::Alone => return Ok(FlightDecision::Alone),
                CacheFlightRole::Follow(ending) => {
                    let end = self.patiently(ending.wait(), context, track).await?;
                    return Ok(match end {
                        Some(FlightEnd::Stored | FlightEnd::Abandoned) => FlightDecision::LookAgain,
                        Some(FlightEnd::Uncacheable | FlightEnd::Failed) | None => {
                            FlightDecision::Alone
                        }
                    });
                }
                CacheFlightRole::Lead(flight) => *led = Some(flight),
            }
            // Another flight may have stored its response after the look-up and before this flight
            // began.
            if cache.store.changes(watched.key) != watched.key_changes {
                return Ok(FlightDecision::LookAgain);
            }
        }
        if cache.sharing == Sharing::Process {
            return Ok(FlightDecision::Lead);
        }
        match cache.claim(*watched.flight, &self.runtime).await {
            LeaseClaim::Lead(lease) => {
                // Only a change of the entry counts, because the claim itself has changed the key
                // of the flight.
                let is_new = cache.store.changes(watched.key) != watched.key_changes;
                if let Some(led) = led {
                    led.lease = Some(lease);
                }
                Ok(if is_new {
                    FlightDecision::LookAgain
                } else {
                    FlightDecision::Lead
                })
            }
            LeaseClaim::Alone => {
                if let Some(led) = led.take() {
                    led.end(FlightEnd::Uncacheable);
                }
                Ok(FlightDecision::Alone)
            }
            LeaseClaim::Wait(until) => {
                let changed = cache.changed(watched, until, &*self.runtime);
                if self.patiently(changed, context, track).await?.is_some() {
                    return Ok(FlightDecision::LookAgain);
                }
                // Ends the flight in this process, so that another of its requests, which may wait
                // longer, can lead.
                drop(led.take());
                Ok(FlightDecision::Alone)
            }
        }
    }

    /// Waits for `work` of another request, at most until the deadline of this one.
    ///
    /// A relayed request waits at most [`RelayMode::hold`](crate::RelayMode::hold): the other
    /// request may have to wait longer for its permit than this one would. Returns `None` after
    /// that time, and the request is then sent alone.
    async fn patiently<D, T>(
        &self,
        work: impl Future<Output = T>,
        context: &HopContext<'_, D, NamedHop>,
        track: &mut RequestTrack,
    ) -> Result<Option<T>, ErrorKind> {
        let begun = self.runtime.boot();
        let relay = context.request.relay.as_ref();
        let patience = relay.map(|relay| relay.hold.saturating_sub(track.journey.flight_wait));
        let until = patience.map_or(track.deadline, |most| track.deadline.min(begun + most));
        let work = before(&*self.runtime, until, work);
        let waited = context.request.unless_cancelled(work).await;
        track.journey.flight_wait += self.runtime.boot().since(begun);
        let waited = waited.ok_or_else(|| context.target.cancelled())?;
        let during = "while another request fetched the same URL";
        if waited.is_none() && until == track.deadline {
            return Err(track.deadline_error(&context.target.host, during));
        }
        Ok(waited)
    }

    /// Returns the [`CacheQuestion`] of a hop: its key, header fields and freshness rules.
    fn question<D>(
        &self,
        cache: &StoredResponses,
        context: &HopContext<'_, D, NamedHop>,
    ) -> CacheQuestion {
        let target = context.target;
        let relay = context.request.relay.as_ref();
        let config = &self.config.cache;
        let mut rules = config.rules(&target.host, target.role, &target.url);
        if let Some(relay) = relay {
            rules = FreshnessRules {
                overrides: Overrides {
                    bypass: rules.overrides.bypass,
                    ..Overrides::default()
                },
                // In a private cache, cookies belong to its only user. In a shared cache they would
                // reach other clients.
                set_cookie: match relay.mode {
                    CacheMode::Private => SetCookie::Keep,
                    CacheMode::Shared => SetCookie::Strip,
                },
                heuristic: relay.heuristic,
                ..FreshnessRules::new(relay.mode)
            };
        }
        CacheQuestion {
            key: KeySpace::of(context.request).key(&target.url),
            rules,
            method: context.hop.method.clone(),
            headers: self.fields(cache, context),
        }
    }

    /// Returns the header fields of the request, with an identity in place of its credentials.
    fn fields<D>(
        &self,
        cache: &StoredResponses,
        context: &HopContext<'_, D, NamedHop>,
    ) -> Arc<HeaderMap> {
        let (hop, target, request) = (context.hop, context.target, context.request);
        if hop.headers.is_empty() && request.relay.is_none() && request.jar().is_none() {
            return Arc::clone(&cache.plain_fields[request.role.index()]);
        }
        let mut fields = self.headers.sent_with(hop, target, request);
        match request.relay.as_ref().map(|relay| relay.mode) {
            None | Some(CacheMode::Private) => {
                let (secrets, ignored) = (&request.secret_headers, request.ignored_fields());
                key::set_identity(&mut fields, target.role, secrets, ignored);
            }
            Some(CacheMode::Shared) => key::mark_credentials(&mut fields, &request.secret_headers),
        }
        Arc::new(fields)
    }

    /// Decides on the [`StoredResponseUse`] of a stored response for a request.
    fn judge<D: Delivery>(
        &self,
        cache: &StoredResponses,
        question: CacheQuestion,
        found: Option<StoredAnswer>,
        access: CacheAccess,
        context: &HopContext<'_, D, NamedHop>,
        track: &mut RequestTrack,
    ) -> StoredResponseUse {
        let is_error = |answer: &StoredAnswer| answer.stored.status().as_u16() >= 400;
        let skips_errors = access == CacheAccess::SkipErrors;
        let found = found.filter(|answer| !(skips_errors && is_error(answer)));
        let waiting = FlightPatience::of(context, access);
        let now = self.runtime.wall();
        let stored = found.as_ref().map(|answer| &*answer.stored);
        let judged = reuse(question.request(), stored, &question.rules, now);
        track.journey.forward = forward_of(&judged);
        let plan = |stored, validators, may_serve| {
            let since = cache.store.stamp(&question.key);
            Box::new(CachePlan {
                question,
                since,
                stored,
                validators,
                may_serve,
                flight: parking_lot::Mutex::default(),
                progress: Arc::default(),
            })
        };
        match (judged, found) {
            (ReuseDecision::Bypass(_), _) => StoredResponseUse::Bypass,
            (ReuseDecision::OnlyIfCachedFailure, _) => StoredResponseUse::NotCached,
            (ReuseDecision::Fresh { .. }, Some(answer)) if access == CacheAccess::Refresh => {
                track.journey.forward = Some(ForwardReason::Request);
                let validators = answer.stored.validators();
                let plan = plan(Some(answer), validators, StaleUse::default());
                StoredResponseUse::Ask(plan, FlightPatience::No)
            }
            (ReuseDecision::Fresh { age }, Some(answer)) => {
                StoredResponseUse::Serve(answer, CacheUse::Hit { age })
            }
            (
                ReuseDecision::Stale {
                    age,
                    validators,
                    may_serve,
                },
                Some(answer),
            ) => match stale_reason(may_serve, access, context.request, now) {
                Some(reason) => {
                    track.wants_validation |= reason == StaleReason::Revalidating;
                    StoredResponseUse::Serve(answer, CacheUse::Stale { age, reason })
                }
                None => StoredResponseUse::Ask(plan(Some(answer), validators, may_serve), waiting),
            },
            (ReuseDecision::Revalidate { validators, .. }, answer) => StoredResponseUse::Ask(
                plan(answer, validators, StaleUse::default()),
                FlightPatience::No,
            ),
            _ => {
                let validators = Validators::default();
                StoredResponseUse::Ask(plan(None, validators, StaleUse::default()), waiting)
            }
        }
    }
}

/// Returns the reason why a stale response may be served without a request; `None` if it may not.
fn stale_reason(
    may_serve: StaleUse,
    access: CacheAccess,
    request: &crate::request::Request,
    now: Timestamp,
) -> Option<StaleReason> {
    if access == CacheAccess::Offline {
        return may_serve.when_disconnected.then_some(StaleReason::Offline);
    }
    if !may_serve.at_once(now) || request.validates || access == CacheAccess::Refresh {
        return None;
    }
    let is_accepted = may_serve.requested_until.is_some_and(|until| now < until);
    Some(if is_accepted {
        StaleReason::Accepted
    } else {
        StaleReason::Revalidating
    })
}

/// The next step of a request after joining a flight.
enum FlightDecision {
    /// The request leads the flight.
    Lead,
    /// The request is sent alone.
    Alone,
    /// The cache may have a response by now, so the look-up is repeated.
    LookAgain,
}

impl StoredResponses {
    /// Finds the stored response that matches a [`CacheQuestion`].
    async fn find(&self, question: &CacheQuestion) -> Option<StoredAnswer> {
        let variants = self.store.look_up(&question.key).await;
        let readable = || {
            let entries = variants.iter();
            entries.filter_map(|entry| Some((entry, entry.decoded(decode)?)))
        };
        let stored = readable().map(|(_, stored)| &**stored);
        let chosen = select(question.request(), stored, &key::hash)?;
        let (entry, stored) = readable().nth(chosen)?;
        Some(StoredAnswer {
            entry: Arc::clone(entry),
            stored: Arc::clone(stored),
        })
    }
}

fn not_cached<D>(context: &HopContext<'_, D, NamedHop>) -> ErrorKind {
    ErrorKind::NotCached {
        host: context.target.host.clone(),
    }
}
