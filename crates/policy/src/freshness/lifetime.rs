//! The lifetime of a response (RFC 9111 section 4.2).

use std::time::Duration;

use http::{HeaderMap, StatusCode, header};

use super::date::FieldDate;
use super::directives::{DirectiveFlag, ResponseDirectives};
use super::facts::ResponseFacts;
use super::members::Members;
use super::status::is_heuristically_cacheable;
use super::{CacheMode, FreshnessRules, Heuristic, StoredResponse};
use crate::time::Timestamp;

/// Returns the lifetime of a stored response under the [`FreshnessRules`], for comparison with its
/// age.
pub(super) fn lifetime(stored: &StoredResponse, rules: &FreshnessRules) -> Duration {
    let (status, headers) = (stored.status(), stored.headers());
    let ResponseFacts {
        directives,
        stated_lifetime,
        ..
    } = stored.facts();
    let lifetime = stated_lifetime.or_else(|| {
        // RFC 9111 section 4.2.2: a heuristic is for responses without a declared lifetime.
        let may_guess =
            is_heuristically_cacheable(status) || directives.flags.has(DirectiveFlag::Public);
        let rule = rules.heuristic.filter(|_| may_guess)?;
        heuristic(headers, rule, stored.received())
    });
    // The operator's lifetime begins at the arrival of the response, regardless of its age at that
    // time.
    let granted =
        granted(status, rules).map(|granted| stored.initial_age().saturating_add(granted));
    lifetime.max(granted).unwrap_or_default()
}

/// Returns the lifetime that a response declares (RFC 9111 section 4.2.1); zero if the declaration
/// is invalid.
pub(super) fn stated(
    headers: &HeaderMap,
    directives: &ResponseDirectives,
    received: Timestamp,
) -> Option<Duration> {
    // The order of precedence: s-maxage (removed in private mode), max-age, Expires.
    if let Some(lifetime) = directives.s_maxage.or(directives.max_age) {
        return Some(lifetime);
    }
    // RFC 9213 section 2.2: a targeted field replaces Expires as well.
    if directives.targeted {
        return None;
    }
    match FieldDate::read(headers, &header::EXPIRES) {
        FieldDate::Absent => None,
        // RFC 9111 section 5.3: an invalid date, such as 0, is in the past.
        FieldDate::Invalid => Some(Duration::ZERO),
        FieldDate::At(expires) => {
            let date = FieldDate::read(headers, &header::DATE).valid();
            Some(expires.since(date.unwrap_or(received)))
        }
    }
}

/// Returns a share of the time since the last modification (RFC 9111 section 4.2.2), as
/// [`Heuristic`] describes.
fn heuristic(headers: &HeaderMap, rule: Heuristic, received: Timestamp) -> Option<Duration> {
    // Pragma has no meaning in responses (RFC 9111 section 5.4), but an origin that sends it wants
    // no guess.
    let pragma = Members::read(headers, &header::PRAGMA).list;
    if pragma.iter().any(|member| member.name == "no-cache") {
        return None;
    }
    let modified = FieldDate::read(headers, &header::LAST_MODIFIED).valid()?;
    let date = FieldDate::read(headers, &header::DATE).valid();
    let since = date.unwrap_or(received).since(modified);
    let share = since / 100 * u32::from(rule.percent.min(100));
    Some(share.min(rule.at_most))
}

/// Returns the shortest lifetime that the operator sets.
fn granted(status: StatusCode, rules: &FreshnessRules) -> Option<Duration> {
    match (rules.mode, status) {
        (CacheMode::Private, StatusCode::OK) => rules.overrides.ttl,
        (CacheMode::Private, StatusCode::NOT_FOUND) => rules.overrides.negative_ttl,
        _ => None,
    }
}
