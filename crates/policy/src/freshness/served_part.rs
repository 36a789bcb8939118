//! The part of a stored response that is served: conditions and ranges of the request (RFC 9111
//! section 4.3.2, RFC 9110 sections 13 and 14).

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use super::date::{FieldDate, parse};
use super::entity_tag::{EntityTag, split_tags};
use super::range::{ByteRange, RequestedRange, wanted};
use super::{CacheRequest, StoredResponse};

/// The part of a stored response that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServedPart {
    /// The head and the whole body.
    Whole,
    /// The head without the body, for HEAD.
    HeadOnly,
    /// A 304, because the caller has the current response.
    NotModified,
    /// A 206 with some bytes of the body.
    Part {
        /// The served bytes.
        range: ByteRange,
        /// The number of bytes of the whole body.
        length: u64,
    },
    /// A 416, because the requested range is outside of the body.
    Unsatisfiable {
        /// The number of bytes of the whole body.
        length: u64,
    },
}

/// Returns the part of a [`StoredResponse`] that is served, in the order of RFC 9110 section
/// 13.2.2. The response must be permitted: fresh, validated, or stale with permission.
#[must_use]
pub fn answer(request: CacheRequest<'_>, stored: &StoredResponse, body_bytes: u64) -> ServedPart {
    let is_get = request.method == Method::GET;
    let whole = if is_get {
        ServedPart::Whole
    } else {
        ServedPart::HeadOnly
    };
    // RFC 9110 section 13.2.1: conditions and ranges apply to successful responses.
    if stored.status() != StatusCode::OK {
        return whole;
    }
    if has_current_copy(request.headers, stored) {
        return ServedPart::NotModified;
    }
    // RFC 9110 section 14.2: ranges are defined for GET.
    if !is_get || !if_range_holds(request.headers, stored) {
        return whole;
    }
    match wanted(request.headers, body_bytes) {
        RequestedRange::Whole => whole,
        RequestedRange::Part(range) => ServedPart::Part {
            range,
            length: body_bytes,
        },
        RequestedRange::Unsatisfiable => ServedPart::Unsatisfiable { length: body_bytes },
    }
}

/// Returns whether the caller's conditions show that its copy is the [`StoredResponse`].
fn has_current_copy(request: &HeaderMap, stored: &StoredResponse) -> bool {
    // RFC 9110 section 13.1.3: If-None-Match takes precedence, even if it does not match.
    if request.contains_key(header::IF_NONE_MATCH) {
        return none_match_names(request, stored);
    }
    let FieldDate::At(copy) = FieldDate::read(request, &header::IF_MODIFIED_SINCE) else {
        return false;
    };
    // RFC 9111 section 4.3.2: without Last-Modified, the date of the response or of its arrival.
    let of = |field| FieldDate::read(stored.headers(), &field).valid();
    let modified = of(header::LAST_MODIFIED).or_else(|| of(header::DATE));
    modified.unwrap_or(stored.received()) <= copy
}

fn none_match_names(request: &HeaderMap, stored: &StoredResponse) -> bool {
    let own = stored.headers().get(header::ETAG);
    let own = own.and_then(|tag| EntityTag::parse(tag.as_bytes()));
    let lines = request.get_all(header::IF_NONE_MATCH).iter();
    let mut tags = lines.flat_map(|line| split_tags(line.as_bytes()));
    tags.any(|tag| {
        // RFC 9110 section 13.1.2: an asterisk matches any current response.
        let named = EntityTag::parse(tag);
        tag.trim_ascii() == b"*"
            || matches!((named, own), (Some(named), Some(own)) if named.matches_weakly(own))
    })
}

/// Returns whether a range may be served: without `If-Range`, or if it names the [`StoredResponse`]
/// by a strong validator (RFC 9110 section 13.1.5).
fn if_range_holds(request: &HeaderMap, stored: &StoredResponse) -> bool {
    let Some(condition) = request.get(header::IF_RANGE) else {
        return true;
    };
    if let Some(tag) = EntityTag::parse(condition.as_bytes()) {
        let own = stored.headers().get(header::ETAG);
        let own = own.and_then(|own| EntityTag::parse(own.as_bytes()));
        return own.is_some_and(|own| own.matches_strongly(tag));
    }
    let of = |field| FieldDate::read(stored.headers(), &field).valid();
    let (modified, date) = (of(header::LAST_MODIFIED), of(header::DATE));
    // RFC 9110 section 8.8.2.2: a date is strong if the response is at least a second younger.
    let is_strong = matches!((modified, date), (Some(modified), Some(date))
        if date.since(modified) >= Duration::from_secs(1) && date > modified);
    is_strong && parse(condition.as_bytes()) == modified
}

/// The fields of a 304 (RFC 9110 section 15.4.5).
const NOT_MODIFIED_FIELDS: [HeaderName; 7] = [
    header::CACHE_CONTROL,
    header::CONTENT_LOCATION,
    header::DATE,
    header::ETAG,
    header::EXPIRES,
    header::LAST_MODIFIED,
    header::VARY,
];

impl StoredResponse {
    /// Returns the status and the fields of a [`ServedPart`], with the `Age` of RFC 9111 section
    /// 5.1.
    #[must_use]
    pub fn head(&self, answer: ServedPart, age: Duration) -> (StatusCode, HeaderMap) {
        let mut headers = self.headers().clone();
        let status = match answer {
            ServedPart::Whole | ServedPart::HeadOnly => self.status(),
            ServedPart::NotModified => {
                headers = HeaderMap::new();
                for name in NOT_MODIFIED_FIELDS {
                    for value in self.headers().get_all(&name) {
                        headers.append(name.clone(), value.clone());
                    }
                }
                StatusCode::NOT_MODIFIED
            }
            ServedPart::Part { range, length } => {
                let ByteRange { first, last } = range;
                set(
                    &mut headers,
                    header::CONTENT_RANGE,
                    &format!("bytes {first}-{last}/{length}"),
                );
                set(
                    &mut headers,
                    header::CONTENT_LENGTH,
                    &range.bytes().to_string(),
                );
                StatusCode::PARTIAL_CONTENT
            }
            ServedPart::Unsatisfiable { length } => {
                headers.remove(header::CONTENT_ENCODING);
                headers.remove(header::CONTENT_TYPE);
                set(
                    &mut headers,
                    header::CONTENT_RANGE,
                    &format!("bytes */{length}"),
                );
                set(&mut headers, header::CONTENT_LENGTH, "0");
                StatusCode::RANGE_NOT_SATISFIABLE
            }
        };
        // Avoids the text that `set` needs, because every cache hit comes here.
        let _ = headers.try_insert(header::AGE, age.as_secs().into());
        (status, headers)
    }
}

fn set(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        // If the map is full, the response is sent without this field.
        let _ = headers.try_insert(name, value);
    }
}
