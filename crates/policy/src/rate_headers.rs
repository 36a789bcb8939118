//! Rate headers: the limits that a response declares for its origin, and the decisions from them.
//!
//! [`read`] parses three families of fields:
//!
//! - `RateLimit` and `RateLimit-Policy` of all RFC drafts.
//! - `RateLimit-Limit`, `-Remaining` and `-Reset`.
//! - `X-RateLimit-*`, as Crossref, GitHub, OpenAlex, Zenodo and many others send them.
//!
//! [`tighten`] and [`spread`] decide from a reading. Malformed fields are ignored and counted, and
//! absurd values are capped. The functions are pure: the caller knows the requests that a quota
//! concerns, and keeps its state. [`crate::retry_after`] parses `Retry-After`, which takes
//! precedence.

use std::num::NonZeroU32;
use std::time::Duration;

use http::HeaderMap;
use serde::{Deserialize, Serialize};

use crate::retry_after::http_date;
use crate::time::{Timestamp, micros};

mod decide;
mod draft;
mod fields;
mod value;
mod window;

pub use decide::{Trust, spread, tighten, tighten_concurrency};
pub use window::ImpliedWindow;

/// The longest window of a [`Quota`]. A longer window is shortened to it, and its limit lowered in
/// proportion.
pub const MAX_WINDOW: Duration = Duration::from_secs(86_400);

/// The shortest window of a [`Quota`]. A shorter declared window is malformed.
pub const MIN_WINDOW: Duration = Duration::from_millis(1);

/// The longest time to a reset. A later reset is moved to it.
///
/// A day is sufficient for longer quotas. The rest of a quota is spread over a day that starts
/// again with each response, and an exhausted quota is tried about once a day.
pub const MAX_RESET: Duration = Duration::from_secs(86_400);

/// The time to the reset from which an exhausted quota delays only its own kind of requests instead
/// of the host.
const LONG_RESET: Duration = Duration::from_secs(60);

/// The largest number of quotas in one [`RateHeaderReading`].
pub const MAX_QUOTAS: usize = 32;

/// The values in the rate headers of one response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateHeaderReading {
    /// The quotas, without duplicates, in an order that does not depend on that of the headers.
    pub quotas: Vec<Quota>,
    /// The limit of concurrent requests: the lowest declared one, and at least one.
    pub concurrency: Option<NonZeroU32>,
    /// The cost of this request, or of the refused request, in quotas of [`Unit::Credits`].
    pub cost: Option<u32>,
    /// The number of fields, or members of a field, that were ignored because they are malformed.
    pub malformed: u32,
}

/// A quota of an origin, with a limit, a remainder, or both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Quota {
    /// The [`Unit`] of the counts.
    pub unit: Unit,
    /// The interval of the limit, from [`MIN_WINDOW`] to [`MAX_WINDOW`].
    pub window: Option<Duration>,
    /// The amount that is allowed in a window.
    pub limit: Option<u32>,
    /// The amount that remains.
    pub remaining: Option<u32>,
    /// The time until more is available, at most [`MAX_RESET`]; zero for a reset that has passed.
    pub resets_in: Option<Duration>,
    /// The partition of the origin's capacity: the partition key of the RFC draft, or the resource
    /// that GitHub names. Requests of other partitions have their own quotas.
    pub partition: Option<Box<str>>,
    /// The headers that declare the quota.
    pub source: RateHeaderFamily,
}

impl Quota {
    /// Returns the distance between two requests of cost `cost` at which the remainder lasts until
    /// the reset. If less than `cost` remains, returns the whole time until the reset.
    ///
    /// Returns `None` if the quota requires no pause. This is so if its unit does not count
    /// requests, if the remainder or the reset is unknown, or if the request costs nothing.
    #[must_use]
    pub fn gap(&self, cost: u32) -> Option<Duration> {
        match self.unit {
            Unit::Requests | Unit::ContentBytes | Unit::Credits => {}
            Unit::ConcurrentRequests | Unit::Other => return None,
        }
        spread(self.remaining?.checked_div(cost)?, self.resets_in?)
    }
}

/// The unit that a [`Quota`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Unit {
    /// Requests, the default of the RFC draft.
    Requests,
    /// Bytes of content.
    ContentBytes,
    /// Concurrent requests.
    ConcurrentRequests,
    /// Credits, of which a request costs any number (OpenAlex).
    Credits,
    /// Another unit. Such a quota has no effect.
    Other,
}

/// The family of headers that declares a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RateHeaderFamily {
    /// `RateLimit` and `RateLimit-Policy`, as in drafts 8 and later.
    RateLimit,
    /// `RateLimit: limit=10, remaining=5, reset=3`, the single field of draft 7.
    RateLimitSingle,
    /// `RateLimit-Limit`, `-Remaining` and `-Reset`, as in drafts up to 6.
    RateLimitFields,
    /// `X-RateLimit-*` or `X-Rate-Limit-*`.
    XRateLimit,
    /// Fields without a window, which earlier responses imply ([`ImpliedWindow`]).
    Implied,
}

/// Configured knowledge about the headers of a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateHeaderHints {
    /// The [`ResetForm`] of `RateLimit-Reset` and `X-RateLimit-Reset`.
    pub reset: ResetForm,
    /// The window of quotas whose headers declare no window.
    pub window: Option<Duration>,
}

/// The form of a reset. Every form also accepts HTTP dates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResetForm {
    /// The form follows from the size of the number:
    ///
    /// - below 10^8, seconds until the reset,
    /// - below 10^11, seconds since 1970,
    /// - below 10^14, milliseconds since 1970,
    /// - otherwise the reset is malformed.
    #[default]
    Recognise,
    /// Seconds until the reset.
    SecondsLeft,
    /// Seconds since 1970.
    EpochSeconds,
    /// Milliseconds since 1970.
    EpochMilliseconds,
}

/// Parses the rate headers of a response that was received at `received`.
///
/// Times of day are compared with the `Date` of the response if present, so that a wrong clock on
/// either side has no effect. Lines of the same name are one list (RFC 9110 section 5.3). A
/// structured field with a malformed part is ignored as a whole (RFC 9651 section 4.2).
///
/// ```
/// use std::time::Duration;
/// use docstokg_policy::rate_headers::{RateHeaderHints, read};
/// use docstokg_policy::time::Timestamp;
/// use http::{HeaderMap, HeaderValue};
///
/// let mut headers = HeaderMap::new();
/// headers.insert("ratelimit-policy", HeaderValue::from_static(r#""default";q=100;w=60"#));
/// headers.insert("ratelimit", HeaderValue::from_static(r#""default";r=40;t=30"#));
/// let reading = read(&headers, Timestamp::from_micros(0), &RateHeaderHints::default());
/// let quota = &reading.quotas[0];
/// assert_eq!((quota.limit, quota.window), (Some(100), Some(Duration::from_secs(60))));
/// assert_eq!((quota.remaining, quota.resets_in), (Some(40), Some(Duration::from_secs(30))));
/// ```
#[must_use]
pub fn read(
    headers: &HeaderMap,
    received: Timestamp,
    hints: &RateHeaderHints,
) -> RateHeaderReading {
    if !is_stated(headers) {
        return RateHeaderReading::default();
    }
    let date = headers.get(http::header::DATE);
    let date = date.and_then(|date| http_date(date.to_str().ok()?));
    let mut reader = RateHeaderReader {
        headers,
        hints,
        sent: date.unwrap_or(received),
        malformed: 0,
    };
    let mut statements = draft::read(&mut reader);
    fields::read_standard(&mut reader, &mut statements);
    fields::read_extensions(&mut reader, &mut statements);
    let concurrency = fields::read_concurrency(&mut reader);
    let cost = fields::read_cost(&mut reader);
    let malformed = reader.malformed;

    let quotas = statements
        .into_iter()
        .filter_map(|statement| statement.into_quota(hints.window))
        .collect();
    RateHeaderReading::new(quotas, concurrency, cost, malformed)
}

/// Returns whether a response may have rate headers. Most have no such headers, so the check looks
/// first at the first letter of each name.
#[must_use]
pub fn is_stated(headers: &HeaderMap) -> bool {
    let mut names = headers.keys().map(http::HeaderName::as_str);
    names.any(|name| matches!(name.as_bytes().first(), Some(b'r' | b'x')) && may_state_a_rate(name))
}

fn may_state_a_rate(name: &str) -> bool {
    ["ratelimit", "x-rate", "x-concurrency-limit"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

impl RateHeaderReading {
    /// Returns whether a quota is exhausted and resets only after `LONG_RESET` or later.
    #[must_use]
    pub fn is_spent_for_long(&self) -> bool {
        let least = self.cost.unwrap_or(1).max(1);
        self.quotas.iter().any(|quota| {
            let needed = if quota.unit == Unit::Credits {
                least
            } else {
                1
            };
            let counts = matches!(quota.unit, Unit::Requests | Unit::Credits);
            counts
                && quota.remaining.is_some_and(|left| left < needed)
                && quota.resets_in.is_some_and(|time| time >= LONG_RESET)
        })
    }

    fn new(
        mut quotas: Vec<Quota>,
        concurrency: Option<u32>,
        cost: Option<u32>,
        malformed: u32,
    ) -> Self {
        quotas.sort_unstable();
        quotas.dedup();
        quotas.truncate(MAX_QUOTAS);
        let concurrency = quotas
            .iter()
            .filter(|quota| quota.unit == Unit::ConcurrentRequests)
            .filter_map(|quota| quota.limit)
            .chain(concurrency)
            .min()
            // Zero concurrent requests would mean no service at all, so one request tests it.
            .map(|limit| NonZeroU32::new(limit).unwrap_or(NonZeroU32::MIN));
        Self {
            quotas,
            concurrency,
            cost,
            malformed,
        }
    }
}

/// The headers, and the hints for their values.
struct RateHeaderReader<'a> {
    headers: &'a HeaderMap,
    hints: &'a RateHeaderHints,
    /// The time at which the response was sent, on the clock that its times of day use.
    sent: Timestamp,
    malformed: u32,
}

impl RateHeaderReader<'_> {
    fn count_malformed(&mut self) {
        self.malformed = self.malformed.saturating_add(1);
    }
}

/// A quota as the headers declare it, before the caps.
#[derive(Clone, Debug)]
struct DeclaredQuota {
    /// The name of its policy.
    name: Option<Box<str>>,
    unit: Unit,
    window: Option<Duration>,
    limit: Option<u64>,
    remaining: Option<u64>,
    resets_in: Option<Duration>,
    partition: Option<Box<str>>,
    source: RateHeaderFamily,
}

impl DeclaredQuota {
    fn new(source: RateHeaderFamily) -> Self {
        Self {
            name: None,
            unit: Unit::Requests,
            window: None,
            limit: None,
            remaining: None,
            resets_in: None,
            partition: None,
            source,
        }
    }

    /// Caps the values. Returns `None` if the quota declares neither a limit nor a remainder.
    fn into_quota(self, usual_window: Option<Duration>) -> Option<Quota> {
        let remaining = match (self.limit, self.remaining) {
            (None, None) => return None,
            (Some(0), None) => Some(0),
            (_, remaining) => remaining,
        };
        let window = self
            .window
            .or(usual_window)
            .filter(|window| *window >= MIN_WINDOW);
        let limit = match window {
            Some(window) => self.limit.map(|limit| limit_per_day_at_most(limit, window)),
            None => self.limit,
        };
        Some(Quota {
            unit: self.unit,
            window: window.map(|window| window.min(MAX_WINDOW)),
            limit: limit.map(to_u32),
            remaining: remaining.map(to_u32),
            resets_in: self.resets_in.map(|resets_in| resets_in.min(MAX_RESET)),
            partition: self.partition,
            source: self.source,
        })
    }
}

/// Returns the limit that keeps the declared rate if the window is shortened to [`MAX_WINDOW`]. A
/// limit above zero stays above zero.
fn limit_per_day_at_most(limit: u64, window: Duration) -> u64 {
    if window <= MAX_WINDOW {
        return limit;
    }
    let scaled = u128::from(limit) * u128::from(micros(MAX_WINDOW)) / u128::from(micros(window));
    u64::try_from(scaled).unwrap_or(limit).max(limit.min(1))
}

fn to_u32(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
