//! Whether a stored response answers a request without the origin (RFC 9111 section 4).

use std::time::Duration;

use http::{Method, header};

use super::directives::{DirectiveFlag, DirectiveScope, RequestDirectives, ResponseDirectives};
use super::{CacheMode, CacheRequest, FreshnessRules, StoredResponse, Validators};
use crate::time::{Timestamp, micros};

/// How a request is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReuseDecision {
    /// By the stored response, at once.
    Fresh {
        /// Its age.
        age: Duration,
    },
    /// By the origin, as the lifetime has passed; by the stored response where `may_serve` says.
    Stale {
        /// Its age.
        age: Duration,
        /// What to ask the origin with.
        validators: Validators,
        /// When the stored response may be served nevertheless.
        may_serve: StaleUse,
    },
    /// By the origin only: the request or the response demands a validation.
    Revalidate {
        /// What to ask the origin with.
        validators: Validators,
        /// What demands it.
        why: ValidationReason,
    },
    /// By the origin: nothing is stored for it.
    Miss,
    /// By the origin, without the cache.
    Bypass(BypassReason),
    /// By a 504: the request wants no origin asked, and nothing stored may be served.
    OnlyIfCachedFailure,
}

/// Who demands that a response is validated before it is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValidationReason {
    /// The request says `no-cache`.
    RequestNoCache,
    /// The request's `max-age` is less than the age.
    RequestMaxAge,
    /// The request's `min-fresh` is more than what is left of the lifetime.
    RequestMinFresh,
    /// The response says `no-cache`.
    ResponseNoCache,
    /// The wall clock reads a time before the response arrived, so that its age is not known.
    ClockStepped,
}

/// Why the cache is not used for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BypassReason {
    /// The operator bypasses the cache for this host and role.
    Operator,
    /// The method is neither GET nor HEAD.
    Method,
    /// The request says `no-store`.
    RequestNoStore,
    /// The request has a condition that only the origin can judge (`If-Match`,
    /// `If-Unmodified-Since`).
    Precondition,
}

/// When a stale response may be served (RFC 9111 section 4.2.4, RFC 5861). The default is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StaleUse {
    /// At once, while the caller validates it in the background, until this time.
    pub while_revalidate_until: Option<Timestamp>,
    /// At once, because the request accepts it (`max-stale`), until this time.
    pub requested_until: Option<Timestamp>,
    /// When the origin fails (see [`is_stale_if_error_status`](super::is_stale_if_error_status),
    /// or no connection), until this time.
    pub if_error_until: Option<Timestamp>,
    /// Nothing forbids it while the cache is deliberately disconnected, as with `--offline`.
    pub when_disconnected: bool,
}

impl StaleUse {
    /// Says whether the response may be served before the origin has answered. Where only
    /// `while_revalidate_until` allows it, a validation has to follow.
    #[must_use]
    pub fn at_once(&self, now: Timestamp) -> bool {
        is_before(now, self.while_revalidate_until) || is_before(now, self.requested_until)
    }

    /// Says whether the response may be served in place of an error of the origin.
    #[must_use]
    pub fn on_error(&self, now: Timestamp) -> bool {
        is_before(now, self.if_error_until) || self.at_once(now)
    }
}

fn is_before(now: Timestamp, until: Option<Timestamp>) -> bool {
    until.is_some_and(|until| now < until)
}

/// Decides how a request is answered, given the stored response that [`select`](super::select)
/// chose for it.
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
        // Section 5.2.1.7: the origin is not asked, whatever keeps the cache from answering.
        Some(reason) if only_if_cached && reason != BypassReason::Method => {
            return ReuseDecision::OnlyIfCachedFailure;
        }
        Some(reason) => return ReuseDecision::Bypass(reason),
        None => {}
    }
    // A response that one user stored is not for all, and the other way round.
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
    // Section 4: the stored response is one to GET, which answers GET and HEAD.
    if request.method != Method::GET && request.method != Method::HEAD {
        return Some(BypassReason::Method);
    }
    // Section 5.2.1.5 forbids to store; a caller that says so wants no cache at all.
    if wishes.flags.has(DirectiveFlag::NoStore) {
        return Some(BypassReason::RequestNoStore);
    }
    // Section 4.3.2: these conditions are for the origin.
    let for_origin = [header::IF_MATCH, header::IF_UNMODIFIED_SINCE];
    let is_for_origin = for_origin
        .iter()
        .any(|field| request.headers.contains_key(field));
    is_for_origin.then_some(BypassReason::Precondition)
}

/// Section 5.2.1.7: a stored response or a 504.
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
    // Section 4.2: fresh while the lifetime exceeds the age.
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

/// Returns what demands a validation of any response, fresh or stale.
fn demand(
    stored: &StoredResponse,
    directives: &ResponseDirectives,
    wishes: &RequestDirectives,
    now: Timestamp,
) -> Option<ValidationReason> {
    // Section 5.2.1.4.
    if wishes.flags.has(DirectiveFlag::NoCache) {
        return Some(ValidationReason::RequestNoCache);
    }
    // Section 5.2.2.4.
    if directives.no_cache == DirectiveScope::Everything {
        return Some(ValidationReason::ResponseNoCache);
    }
    stored
        .is_from_the_future(now)
        .then_some(ValidationReason::ClockStepped)
}

/// Returns the wish of the request that a fresh response does not meet.
fn unmet(
    directives: &ResponseDirectives,
    wishes: &RequestDirectives,
    mode: CacheMode,
    (age, lifetime): (Duration, Duration),
) -> Option<ValidationReason> {
    // RFC 8246 section 2: an immutable response need not be validated on reload while it is fresh.
    // Clients of a gateway are not overruled.
    let is_immutable = mode == CacheMode::Private && directives.flags.has(DirectiveFlag::Immutable);
    // Section 5.2.1.1. A limit of zero means a validation, however quickly the answer came.
    let is_too_old = |limit: Duration| age > limit || limit.is_zero();
    if !is_immutable && wishes.max_age.is_some_and(is_too_old) {
        return Some(ValidationReason::RequestMaxAge);
    }
    // Section 5.2.1.3.
    let ends_too_soon = |wish: Duration| age.saturating_add(wish) > lifetime;
    wishes
        .min_fresh
        .is_some_and(ends_too_soon)
        .then_some(ValidationReason::RequestMinFresh)
}

/// When a response became stale.
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
    // Section 4.2.4: not where the response forbids it.
    if directives.forbid_stale(rules.mode) {
        return StaleUse::default();
    }
    let until = |extra: Option<Duration>| extra.map(|extra| expiry.at + extra);
    // Section 5.2.1.3: a request that wants a response to stay fresh wants no stale one.
    let accepts = wishes.min_fresh.is_none();
    // Section 5.2.1.1: max-age bounds the age of what max-stale accepts.
    let is_young = wishes.max_age.is_none_or(|limit| expiry.age <= limit);
    let background = wishes.max_age.is_none() && accepts;
    let own = directives
        .stale_if_error
        .max(rules.overrides.stale_if_error);
    StaleUse {
        // RFC 5861 section 3.
        while_revalidate_until: until(directives.stale_while_revalidate.filter(|_| background)),
        // Section 5.2.1.2; max-stale includes its last instant.
        requested_until: until(wishes.max_stale.filter(|_| accepts && is_young))
            .map(|until| until + Duration::from_micros(1)),
        // RFC 5861 section 4: the request's own wish comes first.
        if_error_until: until(wishes.stale_if_error.or(own)),
        when_disconnected: true,
    }
}

fn instant_before(now: Timestamp, length: Duration) -> Timestamp {
    let length = i64::try_from(micros(length)).unwrap_or(i64::MAX);
    Timestamp::from_micros(now.as_micros().saturating_sub(length))
}
