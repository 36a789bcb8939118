//! Rate headers: what a response says about the limits of its origin, and what follows from it.
//!
//! [`read`] understands the RFC draft `RateLimit` and `RateLimit-Policy` (all drafts), the fields
//! `RateLimit-Limit`, `-Remaining` and `-Reset`, and `X-RateLimit-*` as Crossref, GitHub, OpenAlex,
//! Zenodo and many others send it. [`tighten`] and [`spread`] are the decisions on top. Malformed
//! fields are ignored and counted, absurd values are capped, and no value makes anything panic.
//!
//! Pure: which requests a quota concerns, where its state lies and when to act are the caller's.
//! `Retry-After` is read in [`crate::retry_after`] and takes precedence over everything here.

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

/// The longest window of a [`Quota`]. A longer one is cut to it, and its limit in proportion.
pub const MAX_WINDOW: Duration = Duration::from_secs(86_400);

/// The shortest window of a [`Quota`]. One that is stated as shorter is malformed.
pub const MIN_WINDOW: Duration = Duration::from_millis(1);

/// The longest time to a reset. A later one is cut to it.
///
/// A day loses nothing on longer quotas: the rest of a quota is spread over a day that begins anew
/// with each response, so that it lasts; and an exhausted one is asked about once a day.
pub const MAX_RESET: Duration = Duration::from_secs(86_400);

/// From this time to the reset on a spent quota holds back its own kind of requests alone, and not
/// the host.
const LONG_RESET: Duration = Duration::from_secs(60);

/// The most quotas in one [`RateHeaderReading`].
pub const MAX_QUOTAS: usize = 32;

/// What the headers of one response say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateHeaderReading {
    /// The quotas, without duplicates, in an order that does not depend on that of the headers.
    pub quotas: Vec<Quota>,
    /// The most requests at a time: the least of those stated, and at least one.
    pub concurrency: Option<NonZeroU32>,
    /// What this request cost, or would have cost, of the quotas in [`Unit::Credits`].
    pub cost: Option<u32>,
    /// How many fields, or members of a field, were ignored because they could not be read.
    pub malformed: u32,
}

/// One quota of an origin. It has a limit or a remainder, or both.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Quota {
    /// What it counts.
    pub unit: Unit,
    /// The time in which the limit holds, from [`MIN_WINDOW`] to [`MAX_WINDOW`].
    pub window: Option<Duration>,
    /// How much is allowed in a window.
    pub limit: Option<u32>,
    /// How much of it is left.
    pub remaining: Option<u32>,
    /// The time until more is left, at most [`MAX_RESET`]; zero for a reset that has passed.
    pub resets_in: Option<Duration>,
    /// Which part of the origin's capacity it is: the partition key of the RFC draft as written,
    /// or the resource that GitHub names. Requests of other partitions have quotas of their own.
    pub partition: Option<Box<str>>,
    /// The headers that state it.
    pub source: RateHeaderFamily,
}

impl Quota {
    /// Returns the time between two requests that cost `cost` each, so that what is left lasts
    /// until the reset. If less than `cost` is left, the whole time until the reset.
    ///
    /// None where the quota asks for no pause: it does not count what a request spends, states no
    /// remainder or no reset, or the request is free.
    #[must_use]
    pub fn gap(&self, cost: u32) -> Option<Duration> {
        match self.unit {
            Unit::Requests | Unit::ContentBytes | Unit::Credits => {}
            Unit::ConcurrentRequests | Unit::Other => return None,
        }
        spread(self.remaining?.checked_div(cost)?, self.resets_in?)
    }
}

/// What a quota counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Unit {
    /// Requests, the default of the RFC draft.
    Requests,
    /// Bytes of content.
    ContentBytes,
    /// Requests at a time.
    ConcurrentRequests,
    /// Credits, of which a request costs any number (OpenAlex).
    Credits,
    /// Something else. Such a quota decides nothing.
    Other,
}

/// The headers that state a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RateHeaderFamily {
    /// `RateLimit` and `RateLimit-Policy`, as drafts 8 and later have them.
    RateLimit,
    /// `RateLimit: limit=10, remaining=5, reset=3`, the single field of draft 7.
    RateLimitSingle,
    /// `RateLimit-Limit`, `-Remaining` and `-Reset`, as drafts up to 6 have them.
    RateLimitFields,
    /// `X-RateLimit-*` or `X-Rate-Limit-*`.
    XRateLimit,
    /// Fields without a window, which earlier responses imply ([`ImpliedWindow`]).
    Implied,
}

/// What is known about the headers of a host beforehand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateHeaderHints {
    /// How `RateLimit-Reset` and `X-RateLimit-Reset` are written.
    pub reset: ResetForm,
    /// The window of quotas whose headers state none.
    pub window: Option<Duration>,
}

/// How a reset is written. HTTP dates are read under all forms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResetForm {
    /// By size: below 10^8 seconds left, below 10^11 seconds since 1970, below 10^14 milliseconds
    /// since 1970; malformed beyond that.
    #[default]
    Recognise,
    /// Seconds left.
    SecondsLeft,
    /// Seconds since 1970.
    EpochSeconds,
    /// Milliseconds since 1970.
    EpochMilliseconds,
}

/// Reads the rate headers of a response that was received at `received`.
///
/// Times of day are measured against the response's own `Date` where it has one, so that a wrong
/// clock on either side does not matter. Lines of the same name are one list (RFC 9110 section
/// 5.3); a structured field of which any part cannot be parsed is ignored as a whole (RFC 9651
/// section 4.2).
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

/// Returns whether a response may have rate headers; most have none. Takes one look at the first
/// letter of each name.
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
    /// Returns whether a quota is spent that comes back only in a minute or later.
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
            // Zero at a time would be no service at all: one request finds out.
            .map(|limit| NonZeroU32::new(limit).unwrap_or(NonZeroU32::MIN));
        Self {
            quotas,
            concurrency,
            cost,
            malformed,
        }
    }
}

/// The headers, and how to read them.
struct RateHeaderReader<'a> {
    headers: &'a HeaderMap,
    hints: &'a RateHeaderHints,
    /// When the response was sent, by the clock that its times of day follow.
    sent: Timestamp,
    malformed: u32,
}

impl RateHeaderReader<'_> {
    fn count_malformed(&mut self) {
        self.malformed = self.malformed.saturating_add(1);
    }
}

/// A quota as the headers state it, before the caps.
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

    /// Caps the values. A time alone is not a quota.
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

/// Returns the limit that keeps the stated rate when the window is cut to [`MAX_WINDOW`]. It stays
/// above zero if it was.
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
