//! Validation of stored responses by the origin (RFC 9111 sections 4.3.1, 4.3.4 and 4.3.5).

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};

use super::date::FieldDate;
use super::directives::ResponseDirectives;
use super::entity_tag::EntityTag;
use super::fields::{storable_fields, updated_fields};
use super::storing::response_forbids;
use super::vary::{FieldHasher, VariantKey};
use super::{CacheExchange, FreshnessRules, NotStored, OriginResponse, StoredResponse, age};

/// The values with which the origin recognises a current stored response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validators {
    /// The entity tag as the origin wrote it.
    pub etag: Option<HeaderValue>,
    /// The date of the last modification as the origin wrote it.
    pub last_modified: Option<HeaderValue>,
}

impl Validators {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let is_date = FieldDate::read(headers, &header::LAST_MODIFIED)
            .valid()
            .is_some();
        Self {
            etag: headers.get(header::ETAG).cloned(),
            last_modified: headers
                .get(header::LAST_MODIFIED)
                .filter(|_| is_date)
                .cloned(),
        }
    }

    /// Returns whether there is no validator, so that only a full request is possible.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.etag.is_none() && self.last_modified.is_none()
    }

    /// Makes a request conditional (RFC 9111 section 4.3.1). The validators replace the caller's
    /// own conditions, which [`answer`](super::answer()) evaluates after the validation. Without
    /// validators the request stays unchanged.
    pub fn apply(&self, headers: &mut HeaderMap) {
        if self.is_empty() {
            return;
        }
        headers.remove(header::IF_NONE_MATCH);
        headers.remove(header::IF_MODIFIED_SINCE);
        if let Some(etag) = &self.etag {
            headers.insert(header::IF_NONE_MATCH, etag.clone());
        }
        if let Some(date) = &self.last_modified {
            headers.insert(header::IF_MODIFIED_SINCE, date.clone());
        }
    }
}

/// The effect of a 304 on a stored response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// The [`StoredResponse`] is current. Its new fields replace the stored ones, and are served.
    Freshened(Box<StoredResponse>),
    /// The [`StoredResponse`] is current and serves this request, but must be removed from the
    /// cache.
    Forget(Box<StoredResponse>, NotStored),
    /// The 304 is about another response. Remove the stored one, and repeat the request without
    /// conditions.
    Mismatch,
}

/// Updates a [`StoredResponse`] with the 304 to a request with its validators (RFC 9111 section
/// 4.3.4). The exchange contains the caller's request, for which the stored response was selected.
#[must_use]
pub fn update(
    stored: &StoredResponse,
    exchange: CacheExchange<'_>,
    rules: &FreshnessRules,
    hash: FieldHasher<'_>,
) -> Update {
    if !is_about(stored.headers(), exchange.response.headers) {
        return Update::Mismatch;
    }
    renew(stored, exchange, rules, hash)
}

/// Returns whether the validators of a 304 are those of a stored response. A 304 without validators
/// is about the stored response, because the request had only the validators of that response.
fn is_about(stored: &HeaderMap, newer: &HeaderMap) -> bool {
    let modified = |headers: &HeaderMap| FieldDate::read(headers, &header::LAST_MODIFIED).valid();
    let dates = (modified(newer), modified(stored));
    match (newer.get(header::ETAG), stored.get(header::ETAG)) {
        (Some(new), Some(old)) => is_same_tag(new, old),
        // A tag that the stored response does not have selects another response, unless the dates
        // agree.
        (Some(_), None) => dates.0.is_some() && dates.0 == dates.1,
        (None, _) => dates.0.is_none() || dates.1.is_none() || dates.0 == dates.1,
    }
}

fn is_same_tag(new: &HeaderValue, old: &HeaderValue) -> bool {
    let tag = |value| EntityTag::parse(HeaderValue::as_bytes(value));
    match (tag(new), tag(old)) {
        // A strong validator selects responses with that strong validator.
        (Some(new), Some(old)) if !new.is_weak() && !old.is_weak() => new.matches_strongly(old),
        (Some(new), Some(old)) => new.matches_weakly(old),
        // Invalid entity tags are compared as text.
        _ => new == old,
    }
}

fn renew(
    stored: &StoredResponse,
    exchange: CacheExchange<'_>,
    rules: &FreshnessRules,
    hash: FieldHasher<'_>,
) -> Update {
    let (request, newer) = (exchange.request, exchange.response.headers);
    // RFC 9111 section 3.2: fields that may not be stored (RFC 9111 section 3.1) do not update
    // either.
    let kept = storable_fields(newer, &ResponseDirectives::of(newer, rules.mode), rules);
    let merged = updated_fields(stored.headers(), &kept);
    let directives = ResponseDirectives::of(&merged, rules.mode);
    let merged = storable_fields(&merged, &directives, rules);
    let response = OriginResponse {
        status: stored.status(),
        headers: &merged,
    };
    let reason = response_forbids(request, response, &directives, rules);
    let variant = VariantKey::of(request, &merged, rules.mode, hash);
    let reason = reason.or(variant.is_none().then_some(NotStored::VaryAny));
    let variant = variant.unwrap_or_else(|| stored.variant().clone());
    let initial_age = age::initial(newer, exchange.times);
    let renewed = Box::new(stored.renewed(merged, variant, initial_age, exchange.times.received));
    match reason {
        None => Update::Freshened(renewed),
        Some(reason) => Update::Forget(renewed, reason),
    }
}

/// The effect of a response to HEAD on a stored response to GET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromHead {
    /// The [`StoredResponse`] is current, with these fields.
    Freshened(Box<StoredResponse>),
    /// The stored response is outdated, or must not be stored any longer: remove it.
    Outdated,
    /// No effect: the response is not a 200 to HEAD.
    Nothing,
}

/// Updates a [`StoredResponse`] with a response to HEAD for the same URL and variant (RFC 9111
/// section 4.3.5).
#[must_use]
pub fn freshen_from_head(
    stored: &StoredResponse,
    exchange: CacheExchange<'_>,
    rules: &FreshnessRules,
    hash: FieldHasher<'_>,
) -> FromHead {
    let (request, response) = (exchange.request, exchange.response);
    let is_head = request.method == Method::HEAD;
    if !is_head || response.status != StatusCode::OK || stored.status() != StatusCode::OK {
        return FromHead::Nothing;
    }
    let same = |field| match (response.headers.get(&field), stored.headers().get(&field)) {
        (Some(new), Some(old)) => new == old,
        // A received field that is not stored counts as a difference.
        (Some(_), None) => field == header::CONTENT_LENGTH,
        (None, _) => true,
    };
    let is_current = [header::ETAG, header::LAST_MODIFIED, header::CONTENT_LENGTH]
        .into_iter()
        .all(same);
    if !is_current {
        return FromHead::Outdated;
    }
    match renew(stored, exchange, rules, hash) {
        Update::Freshened(renewed) => FromHead::Freshened(renewed),
        Update::Forget(..) | Update::Mismatch => FromHead::Outdated,
    }
}
