//! The rules for storing responses (RFC 9111 section 3).

use std::fmt;

use http::{Method, StatusCode, header};
use serde::{Deserialize, Serialize};

use super::directives::{DirectiveFlag, DirectiveScope, RequestDirectives, ResponseDirectives};
use super::lifetime::stated;
use super::status::{can_answer_others, is_heuristically_cacheable, is_understood};
use super::vary::{FieldHasher, VariantKey};
use super::{
    CacheExchange, CacheMode, CacheRequest, ExchangeTimes, FreshnessRules, OriginResponse,
    StoredResponse,
};

/// The decision about storing a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorageDecision {
    /// The response is stored with its body, once the body is complete (see
    /// [`StoredResponse::is_whole`]).
    Store(Box<StoredResponse>),
    /// The response is not stored.
    No(NotStored),
}

/// The reason why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NotStored {
    /// The operator bypasses the cache for this host and role.
    Bypass,
    /// Only responses to GET are stored.
    Method,
    /// The status concerns one request (such as 206, 304, 412, 416 and 429) or is not final.
    Status,
    /// The request contains `no-store`.
    RequestNoStore,
    /// The response contains `no-store`.
    NoStore,
    /// The response contains `must-understand`, and its status is not understood.
    NotUnderstood,
    /// The response is `private`, and the cache is shared.
    Private,
    /// The request has credentials, the cache is shared, and the response does not allow it.
    Authorization,
    /// The response serves no other request (`Vary: *`).
    VaryAny,
    /// The response has no lifetime, and its status does not permit storing.
    NotCacheable,
    /// The response is stale on arrival, has no validators, and may not be served stale.
    NoUse,
}

impl NotStored {
    /// Returns the word used in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::Status => "status",
            Self::RequestNoStore => "request-no-store",
            Self::NoStore => "no-store",
            Self::NotUnderstood => "not-understood",
            Self::Private => "private",
            Self::Authorization => "authorization",
            Self::VaryAny => "vary-any",
            Self::NotCacheable => "not-cacheable",
            Self::NoUse => "no-use",
        }
    }
}

impl fmt::Display for NotStored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Decides about storing a response, and returns the part to store.
#[must_use]
pub fn storable(
    exchange: CacheExchange<'_>,
    rules: &FreshnessRules,
    hash: FieldHasher<'_>,
) -> StorageDecision {
    let CacheExchange {
        request,
        response,
        times,
    } = exchange;
    let directives = ResponseDirectives::of(response.headers, rules.mode);
    if let Some(reason) = request_forbids(request, rules)
        .or_else(|| response_forbids(request, response, &directives, rules))
        .or_else(|| lacks_permission(response, &directives, rules, times))
    {
        return StorageDecision::No(reason);
    }
    // RFC 9111 section 4.1: a response with `Vary: *` matches no request.
    let Some(variant) = VariantKey::of(request, response.headers, rules.mode, hash) else {
        return StorageDecision::No(NotStored::VaryAny);
    };
    let stored = StoredResponse::new(response, &directives, variant, rules, times);
    if is_of_use(&stored, &directives, rules) {
        StorageDecision::Store(Box::new(stored))
    } else {
        StorageDecision::No(NotStored::NoUse)
    }
}

fn request_forbids(request: CacheRequest<'_>, rules: &FreshnessRules) -> Option<NotStored> {
    if rules.overrides.bypass {
        return Some(NotStored::Bypass);
    }
    // RFC 9111 section 3: the method is understood by the cache.
    if request.method != Method::GET {
        return Some(NotStored::Method);
    }
    // RFC 9111 section 5.2.1.5: the request forbids storing.
    let directives = RequestDirectives::of(request.headers);
    let no_store = directives.flags.has(DirectiveFlag::NoStore);
    no_store.then_some(NotStored::RequestNoStore)
}

/// Returns the reason why an [`OriginResponse`] must not be stored. Each validation checks this
/// again.
pub(super) fn response_forbids(
    request: CacheRequest<'_>,
    response: OriginResponse<'_>,
    directives: &ResponseDirectives,
    rules: &FreshnessRules,
) -> Option<NotStored> {
    // RFC 9111 sections 3 and 3.3: the status is final, and partial content is not the whole.
    if !can_answer_others(response.status) || is_partial(response) {
        return Some(NotStored::Status);
    }
    let flags = directives.flags;
    // RFC 9111 section 5.2.2.3: must-understand replaces no-store for caches that know it.
    if flags.has(DirectiveFlag::MustUnderstand) {
        if !is_understood(response.status) {
            return Some(NotStored::NotUnderstood);
        }
    } else if flags.has(DirectiveFlag::NoStore) {
        // RFC 9111 section 5.2.2.5: the response forbids storing.
        return Some(NotStored::NoStore);
    }
    if rules.mode == CacheMode::Private {
        return None;
    }
    // RFC 9111 section 5.2.2.7: the response is for one user.
    if directives.private == DirectiveScope::Everything {
        return Some(NotStored::Private);
    }
    // RFC 9111 section 3.5: credentials need an explicit permission.
    let allowed = flags.has(DirectiveFlag::Public)
        || flags.has(DirectiveFlag::MustRevalidate)
        || directives.s_maxage.is_some();
    let credentials = request.headers.contains_key(header::AUTHORIZATION);
    (credentials && !allowed).then_some(NotStored::Authorization)
}

/// Returns whether an [`OriginResponse`] of status 200 claims to be partial. RFC 9110 section 14.4
/// gives `Content-Range` no meaning here, so only a well-formed field counts as an error of the
/// origin.
fn is_partial(response: OriginResponse<'_>) -> bool {
    let range = response.headers.get(header::CONTENT_RANGE);
    let is_bytes = range.is_some_and(|range| range.as_bytes().starts_with(b"bytes "));
    response.status == StatusCode::OK && is_bytes
}

/// Returns the reason why an [`OriginResponse`] may not be stored, if no part of it permits storing
/// (RFC 9111 section 3, last point).
fn lacks_permission(
    response: OriginResponse<'_>,
    directives: &ResponseDirectives,
    rules: &FreshnessRules,
    times: ExchangeTimes,
) -> Option<NotStored> {
    let permitted = directives.flags.has(DirectiveFlag::Public)
        || (rules.mode == CacheMode::Private && directives.private != DirectiveScope::Nothing)
        || stated(response.headers, directives, times.received).is_some()
        || is_heuristically_cacheable(response.status);
    (!permitted).then_some(NotStored::NotCacheable)
}

/// Returns whether a [`StoredResponse`] can ever be served: fresh, validated, or stale.
fn is_of_use(
    stored: &StoredResponse,
    directives: &ResponseDirectives,
    rules: &FreshnessRules,
) -> bool {
    let needs_validation = directives.no_cache == DirectiveScope::Everything;
    let is_fresh = !needs_validation && stored.lifetime(rules) > stored.initial_age();
    let may_be_stale = !directives.forbid_stale(rules.mode)
        && [
            directives.stale_while_revalidate,
            directives.stale_if_error,
            rules.overrides.stale_if_error,
        ]
        .iter()
        .flatten()
        .any(|extra| stored.lifetime(rules).saturating_add(*extra) > stored.initial_age());
    is_fresh || may_be_stale || !stored.validators().is_empty()
}
