//! The choice between a stored response and the origin (RFC 9111 section 4).

use std::time::Duration;

use http::{Method, header};

use super::directives::{DirectiveFlag, DirectiveScope, RequestDirectives, ResponseDirectives};
use super::{CacheMode, CacheRequest, FreshnessRules, StoredResponse, Validators};
use crate::time::{Timestamp, micros};

/// The way in which a request is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReuseDecision {
    /// The stored response is served at once.
    Fresh {
        /// The age of the stored response.
        age: Duration,
    },
    /// A request is sent to the origin, because the lifetime has passed. The stored response is
    /// served if `may_serve` allows it.
    Stale {
        /// The age of the stored response.
        age: Duration,
        /// The [`Validators`] for the request to the origin.
        validators: Validators,
        /// The conditions under which the stale response may be served.
        may_serve: StaleUse,
    },
    /// The origin must validate the stored response, as the request or the response demands.
    Revalidate {
        /// The [`Validators`] for the request to the origin.
        validators: Validators,
        /// The [`ValidationReason`] for the validation.
        why: ValidationReason,
    },
    /// A request is sent to the origin, because no response is stored.
    Miss,
    /// A request is sent to the origin without the cache.
    Bypass(BypassReason),
    /// A 504 is served: the request forbids a request to the origin, and no stored response may be
    /// served.
    OnlyIfCachedFailure,
}

/// The reason why a response is validated before it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValidationReason {
    /// The request contains `no-cache`.
    RequestNoCache,
    /// The request's `max-age` is less than the age.
    RequestMaxAge,
    /// The request's `min-fresh` exceeds the rest of the lifetime.
    RequestMinFresh,
    /// The response contains `no-cache`.
    ResponseNoCache,
    /// The wall clock shows a time before the arrival of the response, so that its age is unknown.
    ClockStepped,
}

/// The reason why the cache is not used for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BypassReason {
    /// The operator bypasses the cache for this host and role.
    Operator,
    /// The method is neither GET nor HEAD.
    Method,
    /// The request contains `no-store`.
    RequestNoStore,
    /// The request has a condition that only the origin can evaluate (`If-Match`,
    /// `If-Unmodified-Since`).
    Precondition,
}

/// The conditions under which a stale response may be served (RFC 9111 section 4.2.4, RFC 5861). By
/// default a stale response is never served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StaleUse {
    /// The time until which the response may be served at once, if the caller validates it in the
    /// background.
    pub while_revalidate_until: Option<Timestamp>,
    /// The time until which the response may be served at once, because the request accepts stale
    /// responses (`max-stale`).
    pub requested_until: Option<Timestamp>,
    /// The time until which the response may be served if the origin fails (see
    /// [`is_stale_if_error_status`](super::is_stale_if_error_status)) or cannot be reached.
    pub if_error_until: Option<Timestamp>,
    /// Set if the response may be served while the cache is deliberately disconnected, as with
    /// `--offline`.
    pub when_disconnected: bool,
}

impl StaleUse {
    /// Returns whether the response may be served before the origin responds. If only
    /// `while_revalidate_until` allows it, a validation must follow.
    #[must_use]
    pub fn at_once(&self, now: Timestamp) -> bool {
        is_before(now, self.while_revalidate_until) || is_before(now, self.requested_until)
    }

    /// Returns whether the response may be served instead of an error of the origin.
    #[must_use]
    pub fn on_error(&self, now: Timestamp) -> bool {
        is_before(now, self.if_error_until) || self.at_once(now)
    }
}

fn is_before(now: Timestamp, until: Option<Timestamp>) -> bool {
    until.is_some_and(|until| now < until)
}

/// Decides how a request is served. `stored` is the [`StoredResponse`] that
/// [`select`](super::select) chose.
#[must_use]
pub fn reuse(
    request: CacheRequest<'_>,
    stored: Option<&StoredResponse>,
    rules: &FreshnessRules,
    now: Timestamp,
) -> ReuseDecision {
    let wishes = RequestDirectives::of(request.headers);
    let only_if_cached = wishes.flags.has(DirectiveFlag::OnlyIfCached);
    match bypass(request, &wishes, rules) {
        // RFC 9111 section 5.2.1.7: no request is sent to the origin, even if the cache is
        // bypassed.
        Some(reason) if only_if_cached && reason != BypassReason::Method => {
            return ReuseDecision::OnlyIfCachedFailure;
        }
        Some(reason) => return ReuseDecision::Bypass(reason),
        None => {}
    }
    // A response stored for one user must not be served to all users, and the reverse.
    let stored = stored.filter(|stored| stored.mode() == rules.mode);
    let reuse = stored.map_or(ReuseDecision::Miss, |stored| {
        judge(stored, &wishes, rules, now)
    });
    if only_if_cached {
        return if_cached(reuse, now);
    }
    reuse
}

fn bypass(
    request: CacheRequest<'_>,
    wishes: &RequestDirectives,
    rules: &FreshnessRules,
) -> Option<BypassReason> {
    if rules.overrides.bypass {
        return Some(BypassReason::Operator);
    }
    // RFC 9111 section 4: a stored response to GET may serve GET and HEAD.
    if request.method != Method::GET && request.method != Method::HEAD {
        return Some(BypassReason::Method);
    }
    // RFC 9111 section 5.2.1.5 forbids storing the response. This cache also ignores a stored one.
    if wishes.flags.has(DirectiveFlag::NoStore) {
        return Some(BypassReason::RequestNoStore);
    }
    // RFC 9111 section 4.3.2: these conditions are for the origin.
    let for_origin = [header::IF_MATCH, header::IF_UNMODIFIED_SINCE];
    let is_for_origin = for_origin
        .iter()
        .any(|field| request.headers.contains_key(field));
    is_for_origin.then_some(BypassReason::Precondition)
}

/// Returns a stored response or a 504, for `only-if-cached` (RFC 9111 section 5.2.1.7).
fn if_cached(reuse: ReuseDecision, now: Timestamp) -> ReuseDecision {
    match reuse {
        ReuseDecision::Fresh { .. } => reuse,
        ReuseDecision::Stale { may_serve, .. } if may_serve.at_once(now) => reuse,
        _ => ReuseDecision::OnlyIfCachedFailure,
    }
}

fn judge(
    stored: &StoredResponse,
    wishes: &RequestDirectives,
    rules: &FreshnessRules,
    now: Timestamp,
) -> ReuseDecision {
    let directives = &stored.facts().directives;
    let (age, lifetime) = (stored.age(now), stored.lifetime(rules));
    let is_fresh = lifetime > age;
    if let Some(why) = demand(stored, directives, wishes, now) {
        let validators = stored.validators();
        return ReuseDecision::Revalidate { validators, why };
    }
    // RFC 9111 section 4.2: a response is fresh while the lifetime exceeds the age.
    if !is_fresh {
        let expiry = Expiry {
            at: instant_before(now, age.saturating_sub(lifetime)),
            age,
        };
        return ReuseDecision::Stale {
            age,
            validators: stored.validators(),
            may_serve: stale_use(directives, wishes, rules, &expiry),
        };
    }
    match unmet(directives, wishes, rules.mode, (age, lifetime)) {
        Some(why) => ReuseDecision::Revalidate {
            validators: stored.validators(),
            why,
        },
        None => ReuseDecision::Fresh { age },
    }
}

/// Returns the reason why a [`StoredResponse`] must be validated even if it is fresh.
fn demand(
    stored: &StoredResponse,
    directives: &ResponseDirectives,
    wishes: &RequestDirectives,
    now: Timestamp,
) -> Option<ValidationReason> {
    // RFC 9111 section 5.2.1.4: the request demands a validation.
    if wishes.flags.has(DirectiveFlag::NoCache) {
        return Some(ValidationReason::RequestNoCache);
    }
    // RFC 9111 section 5.2.2.4: the response demands a validation before each use.
    if directives.no_cache == DirectiveScope::Everything {
        return Some(ValidationReason::ResponseNoCache);
    }
    stored
        .is_from_the_future(now)
        .then_some(ValidationReason::ClockStepped)
}

/// Returns the condition of the request that a fresh response does not meet.
fn unmet(
    directives: &ResponseDirectives,
    wishes: &RequestDirectives,
    mode: CacheMode,
    (age, lifetime): (Duration, Duration),
) -> Option<ValidationReason> {
    // RFC 8246 section 2: a fresh immutable response is not validated on reload. In a gateway, the
    // directives of the client apply.
    let is_immutable = mode == CacheMode::Private && directives.flags.has(DirectiveFlag::Immutable);
    // RFC 9111 section 5.2.1.1. A limit of zero always means a validation.
    let is_too_old = |limit: Duration| age > limit || limit.is_zero();
    if !is_immutable && wishes.max_age.is_some_and(is_too_old) {
        return Some(ValidationReason::RequestMaxAge);
    }
    // RFC 9111 section 5.2.1.3: the response must stay fresh for the requested time.
    let ends_too_soon = |wish: Duration| age.saturating_add(wish) > lifetime;
    wishes
        .min_fresh
        .is_some_and(ends_too_soon)
        .then_some(ValidationReason::RequestMinFresh)
}

/// The instant at which a response became stale, and its age.
struct Expiry {
    at: Timestamp,
    age: Duration,
}

fn stale_use(
    directives: &ResponseDirectives,
    wishes: &RequestDirectives,
    rules: &FreshnessRules,
    expiry: &Expiry,
) -> StaleUse {
    // RFC 9111 section 4.2.4: a stale response is not served if its own directives forbid that.
    if directives.forbid_stale(rules.mode) {
        return StaleUse::default();
    }
    let until = |extra: Option<Duration>| extra.map(|extra| expiry.at + extra);
    // RFC 9111 section 5.2.1.3: a request that wants a response to stay fresh accepts no stale
    // response.
    let accepts = wishes.min_fresh.is_none();
    // RFC 9111 section 5.2.1.1: max-age limits the age of a response that max-stale accepts.
    let is_young = wishes.max_age.is_none_or(|limit| expiry.age <= limit);
    let background = wishes.max_age.is_none() && accepts;
    let own = directives
        .stale_if_error
        .max(rules.overrides.stale_if_error);
    StaleUse {
        // RFC 5861 section 3: stale-while-revalidate.
        while_revalidate_until: until(directives.stale_while_revalidate.filter(|_| background)),
        // RFC 9111 section 5.2.1.2; max-stale includes its last instant.
        requested_until: until(wishes.max_stale.filter(|_| accepts && is_young))
            .map(|until| until + Duration::from_micros(1)),
        // RFC 5861 section 4: the directive of the request takes precedence.
        if_error_until: until(wishes.stale_if_error.or(own)),
        when_disconnected: true,
    }
}

fn instant_before(now: Timestamp, length: Duration) -> Timestamp {
    let length = i64::try_from(micros(length)).unwrap_or(i64::MAX);
    Timestamp::from_micros(now.as_micros().saturating_sub(length))
}
