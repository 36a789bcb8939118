//! The semantics of an HTTP cache: what may be stored, what answers a request, and until when.
//!
//! The modules are ordered like RFC 9111: `storing` (section 3), `fields` (3.1, 3.2), `vary` (4.1),
//! `lifetime` and `age` (4.2), `validation`, `served_part` and `range` (4.3), `invalidation` (4.4),
//! `directives` (5.2); `reuse` joins them for one request. Also RFC 5861 (stale answers), RFC 8246
//! (`immutable`) and, in shared mode, RFC 9213 (`CDN-Cache-Control`).
//!
//! Pure: the caller reads the clock, hashes and stores. Malformed fields are read in the
//! restrictive way, so that an answer is stale too early rather than fresh too long. Not
//! supported: storing partial content (206), answers to POST, and several ranges in one answer
//! (the whole answer is served instead, which RFC 9110 section 14.2 allows).
//!
//! A request's life:
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
//! // In earnest a keyed cryptographic hash.
//! let hash = |bytes: &[u8]| Digest([bytes.len() as u8; 32]);
//! let asked = HeaderMap::new();
//! let request = CacheRequest { method: &Method::GET, headers: &asked };
//! let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
//!
//! // Nothing is stored: ask the origin, then decide whether to store its answer.
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
//! // Later: choose among the variants of the URL, then ask whether the chosen one answers.
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
//! When it is stale, [`Validators::apply`] makes the request conditional, and [`update`] takes the
//! 304; [`StaleUse`] says when the stored answer may be served nevertheless. [`freshen_from_head`]
//! takes responses to HEAD, and [`invalidates`] those to methods that change something.

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

/// The longest time that a delta-seconds value means (RFC 9111 section 1.2.2): 2^31 seconds.
pub const MAX_DELTA: Duration = Duration::from_secs(1 << 31);

/// Whose answers the cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CacheMode {
    /// Those of one user: `private` is storable, `s-maxage` and `CDN-Cache-Control` mean nothing.
    Private,
    /// Those of all clients of a gateway.
    Shared,
}

/// What the operator wants for a host and role, beyond what the origin states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overrides {
    /// The least lifetime of a 200, in private mode. It lengthens `max-age` and `Expires` and
    /// stands in for them; `no-store` and `no-cache` hold nevertheless.
    pub ttl: Option<Duration>,
    /// The same for a 404. No other error has a lifetime that its origin did not state.
    pub negative_ttl: Option<Duration>,
    /// How long past its lifetime an answer may be served when the origin fails. Where the origin
    /// states `stale-if-error` too, the longer of both; `must-revalidate` and its kin hold.
    pub stale_if_error: Option<Duration>,
    /// Neither stores nor answers.
    pub bypass: bool,
}

/// A lifetime for answers that state none (RFC 9111 section 4.2.2): a share of the time since
/// they were last modified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heuristic {
    /// The share, in percent; the RFC suggests 10. More than 100 is read as 100.
    pub percent: u8,
    /// The longest lifetime that follows.
    pub at_most: Duration,
}

/// What becomes of `Set-Cookie` in stored answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SetCookie {
    /// It is removed: a cookie is meant for the exchange in which it is set.
    #[default]
    Strip,
    /// It is stored and served, as RFC 9111 section 7.3 describes.
    Keep,
}

/// The rules of one cache for one host and role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreshnessRules {
    /// Whose answers the cache holds.
    pub mode: CacheMode,
    /// The lifetime of answers that state none. Off unless the operator asks for it.
    pub heuristic: Option<Heuristic>,
    /// What becomes of `Set-Cookie`.
    pub set_cookie: SetCookie,
    /// The operator's wishes.
    pub overrides: Overrides,
}

impl FreshnessRules {
    /// Returns the rules of a cache that does what origins state and no more.
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

/// A request as the cache sees it. The URL is the cache's key and not part of it.
#[derive(Clone, Copy, Debug)]
pub struct CacheRequest<'a> {
    /// The method.
    pub method: &'a Method,
    /// The header fields that the caller sends, before the cache adds its own validators.
    pub headers: &'a HeaderMap,
}

/// The head of a response as it came from the origin.
#[derive(Clone, Copy, Debug)]
pub struct OriginResponse<'a> {
    /// The status.
    pub status: StatusCode,
    /// The header fields.
    pub headers: &'a HeaderMap,
}

/// When an exchange with the origin took place, in wall time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeTimes {
    /// When the request was sent (`request_time` of RFC 9111 section 4.2.3).
    pub sent: Timestamp,
    /// When the head of the response arrived (`response_time`).
    pub received: Timestamp,
}

/// One exchange with the origin.
#[derive(Clone, Copy, Debug)]
pub struct CacheExchange<'a> {
    /// What the caller asked for, before the cache added its own validators.
    pub request: CacheRequest<'a>,
    /// What the origin answered.
    pub response: OriginResponse<'a>,
    /// When.
    pub times: ExchangeTimes,
}
