//! The semantics of an HTTP cache: which responses are stored, and which requests they serve.
//!
//! The modules follow RFC 9111:
//!
//! - `storing` (section 3), `fields` (3.1, 3.2), `vary` (4.1), `lifetime` and `age` (4.2).
//! - `validation`, `served_part` and `range` (4.3), `invalidation` (4.4), `directives` (5.2).
//! - `reuse`, which joins these parts for one request.
//!
//! RFC 5861 (stale responses), RFC 8246 (`immutable`) and, in shared mode, RFC 9213
//! (`CDN-Cache-Control`) are included.
//!
//! The functions are pure: the caller reads the clock, hashes and stores. Malformed fields are
//! treated restrictively, so that a response becomes stale too early rather than too late. Partial
//! content (206) and responses to POST are not stored. A request for several ranges receives the
//! whole response, which RFC 9110 section 14.2 allows.
//!
//! The lifecycle of a request:
//!
//! ```
//! use docstokg_policy::freshness::{
//!     CacheExchange, CacheMode, CacheRequest, Digest, ExchangeTimes, FreshnessRules,
//!     OriginResponse, ReuseDecision, ServedPart, StorageDecision, answer, reuse, select, storable,
//! };
//! use docstokg_policy::time::Timestamp;
//! use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
//!
//! let rules = FreshnessRules::new(CacheMode::Private);
//! // Real callers use a keyed cryptographic hash.
//! let hash = |bytes: &[u8]| Digest([bytes.len() as u8; 32]);
//! let asked = HeaderMap::new();
//! let request = CacheRequest { method: &Method::GET, headers: &asked };
//! let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
//!
//! // The cache is empty: send the request, then decide about storing the response.
//! assert_eq!(reuse(request, None, &rules, at(100)), ReuseDecision::Miss);
//! let mut answered = HeaderMap::new();
//! answered.insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=60"));
//! let response = OriginResponse { status: StatusCode::OK, headers: &answered };
//! let times = ExchangeTimes { sent: at(100), received: at(101) };
//! let exchange = CacheExchange { request, response, times };
//! let StorageDecision::Store(stored) = storable(exchange, &rules, &hash) else {
//!     panic!("an answer with a lifetime is stored");
//! };
//! assert!(stored.is_whole(9), "the body has arrived, nine bytes");
//!
//! // Later: select a variant of the URL, then decide if the stored response is served.
//! let variants = [*stored];
//! let chosen = select(request, &variants, &hash).map(|position| &variants[position]);
//! let reused = reuse(request, chosen, &rules, at(130));
//! let (Some(stored), ReuseDecision::Fresh { age }) = (chosen, reused) else {
//!     panic!("it is fresh for a minute");
//! };
//! let answer = answer(request, stored, 9);
//! assert_eq!(answer, ServedPart::Whole);
//! let (status, headers) = stored.head(answer, age);
//! assert_eq!(status, StatusCode::OK);
//! assert_eq!(headers[header::AGE], "30");
//! ```
//!
//! If the stored response is stale, [`Validators::apply`] makes the request conditional, and
//! [`update`] applies the 304. [`StaleUse`] describes when a stale response may be served.
//! [`freshen_from_head`] applies responses to HEAD, and [`invalidates`] those to unsafe methods.

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

mod age;
mod date;
mod directives;
mod entity_tag;
mod facts;
mod fields;
mod invalidation;
mod lifetime;
mod members;
mod range;
mod reuse;
mod served_part;
mod status;
mod stored;
mod storing;
mod targeted;
mod validation;
mod vary;

pub use fields::{connection_options, is_hop_by_hop};
pub use invalidation::invalidates;
pub use range::ByteRange;
pub use reuse::{BypassReason, ReuseDecision, StaleUse, ValidationReason, reuse};
pub use served_part::{ServedPart, answer};
pub use status::is_stale_if_error_status;
pub use stored::StoredResponse;
pub use storing::{NotStored, StorageDecision, storable};
pub use validation::{FromHead, Update, Validators, freshen_from_head, update};
pub use vary::{Digest, FieldHasher, VariantKey, select};

/// The largest delta-seconds value (RFC 9111 section 1.2.2): 2^31 seconds.
pub const MAX_DELTA: Duration = Duration::from_secs(1 << 31);

/// The owner of the responses in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CacheMode {
    /// A single user: `private` is storable, `s-maxage` and `CDN-Cache-Control` are ignored.
    Private,
    /// All clients of a gateway.
    Shared,
}

/// The settings of the operator for a host and role, beyond the directives of the origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overrides {
    /// The shortest lifetime of a 200, in private mode. The value extends `max-age` and `Expires`,
    /// and replaces them if absent. `no-store` and `no-cache` still apply.
    pub ttl: Option<Duration>,
    /// The shortest lifetime of a 404, in private mode. Other errors have only the lifetime that
    /// their origin declares.
    pub negative_ttl: Option<Duration>,
    /// The time past its lifetime for which a response may be served if the origin fails. If the
    /// origin declares `stale-if-error`, the longer time applies. `must-revalidate` and similar
    /// directives still apply.
    pub stale_if_error: Option<Duration>,
    /// Set if the cache is not used for this host and role.
    pub bypass: bool,
}

/// A lifetime for responses that declare no lifetime (RFC 9111 section 4.2.2): a share of the time
/// since their last modification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heuristic {
    /// The share in percent; the RFC suggests 10. The maximum is 100.
    pub percent: u8,
    /// The longest lifetime from this rule.
    pub at_most: Duration,
}

/// The treatment of `Set-Cookie` in stored responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SetCookie {
    /// Removes the field, because a cookie is meant for its own exchange.
    #[default]
    Strip,
    /// Stores and serves the field, as RFC 9111 section 7.3 describes.
    Keep,
}

/// The rules of one cache for one host and role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreshnessRules {
    /// The owner of the responses.
    pub mode: CacheMode,
    /// The lifetime of responses that declare no lifetime; `None` by default.
    pub heuristic: Option<Heuristic>,
    /// The treatment of `Set-Cookie`.
    pub set_cookie: SetCookie,
    /// The settings of the operator.
    pub overrides: Overrides,
}

impl FreshnessRules {
    /// Returns the rules of a cache that follows only the directives of origins.
    #[must_use]
    pub const fn new(mode: CacheMode) -> Self {
        Self {
            mode,
            heuristic: None,
            set_cookie: SetCookie::Strip,
            overrides: Overrides {
                ttl: None,
                negative_ttl: None,
                stale_if_error: None,
                bypass: false,
            },
        }
    }
}

/// A request as the cache sees it. The URL is the key of the cache, so it is not included.
#[derive(Clone, Copy, Debug)]
pub struct CacheRequest<'a> {
    /// The method.
    pub method: &'a Method,
    /// The header fields of the caller, before the cache adds its own [`Validators`].
    pub headers: &'a HeaderMap,
}

/// The head of a response from the origin.
#[derive(Clone, Copy, Debug)]
pub struct OriginResponse<'a> {
    /// The status.
    pub status: StatusCode,
    /// The header fields.
    pub headers: &'a HeaderMap,
}

/// The times of an exchange with the origin, on the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeTimes {
    /// The time at which the request was sent (`request_time` of RFC 9111 section 4.2.3).
    pub sent: Timestamp,
    /// The time at which the head of the response arrived (`response_time`).
    pub received: Timestamp,
}

/// A request to the origin and its response.
#[derive(Clone, Copy, Debug)]
pub struct CacheExchange<'a> {
    /// The request of the caller, before the cache added its own [`Validators`].
    pub request: CacheRequest<'a>,
    /// The [`OriginResponse`] of the origin.
    pub response: OriginResponse<'a>,
    /// The [`ExchangeTimes`] of the exchange.
    pub times: ExchangeTimes,
}
