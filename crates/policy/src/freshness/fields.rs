//! The header fields that are stored (RFC 9111 section 3.1), and their replacement by later ones
//! (3.2).

use http::header::{self, HeaderMap, HeaderName};

use super::directives::{ResponseDirectives, is_needed};
use super::members::split_outside_quotes;
use super::{CacheMode, FreshnessRules, SetCookie};

/// Returns the fields of a response that may be stored.
pub(super) fn storable_fields(
    headers: &HeaderMap,
    directives: &ResponseDirectives,
    rules: &FreshnessRules,
) -> HeaderMap {
    let excluded = ExcludedFields::of(headers, directives, rules);
    let mut kept = HeaderMap::new();
    for (name, value) in headers {
        if !excluded.contains(name) {
            // The appended fields fit, because the source map has the same capacity limit.
            let _ = kept.try_append(name, value.clone());
        }
    }
    kept
}

/// The fields of a response that must not be stored.
struct ExcludedFields<'a> {
    named: Vec<HeaderName>,
    directives: &'a ResponseDirectives,
    rules: &'a FreshnessRules,
}

impl<'a> ExcludedFields<'a> {
    fn of(
        headers: &HeaderMap,
        directives: &'a ResponseDirectives,
        rules: &'a FreshnessRules,
    ) -> Self {
        Self {
            named: connection_options(headers),
            directives,
            rules,
        }
    }

    fn contains(&self, name: &HeaderName) -> bool {
        // The age on arrival is stored separately, and `Age` is computed when served (RFC 9111
        // section 5.1).
        *name == header::AGE
            || is_hop_by_hop(name)
            || self.named.contains(name)
            || (is_set_cookie(name) && self.rules.set_cookie == SetCookie::Strip)
            // RFC 9111 section 5.2.2.4: these fields need a validation before use.
            || self.directives.no_cache.fields().contains(name)
            // RFC 9111 section 5.2.2.7: these fields are for one user only.
            || (self.rules.mode == CacheMode::Shared && self.directives.private.fields().contains(name))
    }
}

/// Returns the fields that `Connection` names (RFC 9110 section 7.6.1). Fields that the cache needs
/// are never connection options, even if the sender names them.
#[must_use]
pub fn connection_options(headers: &HeaderMap) -> Vec<HeaderName> {
    let lines = headers.get_all(header::CONNECTION).iter();
    let options = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    options
        .filter_map(|option| HeaderName::from_bytes(option.trim_ascii()).ok())
        .filter(|name| !is_needed(name))
        .collect()
}

/// Returns whether a field concerns one connection or one proxy, so that it is neither stored nor
/// forwarded.
///
/// ```
/// use docstokg_policy::freshness::is_hop_by_hop;
/// use http::header;
///
/// assert!(is_hop_by_hop(&header::TRANSFER_ENCODING));
/// assert!(!is_hop_by_hop(&header::CONTENT_TYPE));
/// ```
#[must_use]
pub fn is_hop_by_hop(name: &HeaderName) -> bool {
    let others = [
        header::CONNECTION,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ];
    // `Proxy-Status` (RFC 9209) is meant for every recipient on the path.
    let is_of_proxy = || name.as_str().starts_with("proxy-") && name.as_str() != "proxy-status";
    others.contains(name) || name.as_str() == "keep-alive" || is_of_proxy()
}

fn is_set_cookie(name: &HeaderName) -> bool {
    *name == header::SET_COOKIE || name.as_str() == "set-cookie2"
}

/// Returns the stored fields after a 304 or a response to HEAD (RFC 9111 section 3.2). Newer fields
/// replace stored fields of the same name, except those that describe the stored body.
pub(super) fn updated_fields(stored: &HeaderMap, newer: &HeaderMap) -> HeaderMap {
    let describes_body = |name: &HeaderName| {
        [
            header::CONTENT_LENGTH,
            header::CONTENT_ENCODING,
            header::CONTENT_RANGE,
        ]
        .contains(name)
    };
    let mut updated = HeaderMap::new();
    for (name, value) in stored {
        if describes_body(name) || !newer.contains_key(name) {
            let _ = updated.try_append(name, value.clone());
        }
    }
    for (name, value) in newer {
        if !describes_body(name) {
            let _ = updated.try_append(name, value.clone());
        }
    }
    updated
}

/// Returns the members of a list field, trimmed and without empty ones. Returns `None` if a quoted
/// string has no end.
pub(super) fn list_members<'a>(
    headers: &'a HeaderMap,
    field: &HeaderName,
) -> Option<Vec<&'a [u8]>> {
    let mut members = Vec::new();
    for line in headers.get_all(field) {
        let parts = split_outside_quotes(line.as_bytes())?.into_iter();
        members.extend(
            parts
                .map(<[u8]>::trim_ascii)
                .filter(|part| !part.is_empty()),
        );
    }
    Some(members)
}
