//! A stored response without its body, as in the index of the cache.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};

use super::directives::ResponseDirectives;
use super::facts::{FactsOnce, ResponseFacts};
use super::lifetime::lifetime;
use super::vary::VariantKey;
use super::{CacheMode, ExchangeTimes, FreshnessRules, OriginResponse, Validators, age, fields};
use crate::retry_after::format_http_date;
use crate::time::{Timestamp, micros};

/// The time by which the wall clock may step back before ages are unknown.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(60);

/// The status and header fields of a stored response, its times, and the key of the requests that
/// it may serve.
///
/// The serde form has its own layout: text in Latin-1, times in microseconds. Bytes that do not
/// decode to valid fields are an error, which the caller treats as a miss. Only a digest of the
/// request is stored (see [`VariantKey`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PersistedResponse", into = "PersistedResponse")]
pub struct StoredResponse {
    status: StatusCode,
    headers: HeaderMap,
    received: Timestamp,
    initial_age: Duration,
    variant: VariantKey,
    mode: CacheMode,
    facts: FactsOnce,
}

impl StoredResponse {
    /// Creates a stored response from the fields that may be stored.
    pub(super) fn new(
        response: OriginResponse<'_>,
        directives: &ResponseDirectives,
        variant: VariantKey,
        rules: &FreshnessRules,
        times: ExchangeTimes,
    ) -> Self {
        let mut stored = Self {
            status: response.status,
            headers: fields::storable_fields(response.headers, directives, rules),
            received: times.received,
            initial_age: age::initial(response.headers, times),
            variant,
            mode: rules.mode,
            facts: FactsOnce::default(),
        };
        stored.date_if_missing();
        stored
    }

    /// Returns this response with other fields and times, after a validation.
    pub(super) fn renewed(
        &self,
        headers: HeaderMap,
        variant: VariantKey,
        initial_age: Duration,
        received: Timestamp,
    ) -> Self {
        let mut renewed = Self {
            status: self.status,
            headers,
            received,
            initial_age,
            variant,
            mode: self.mode,
            facts: FactsOnce::default(),
        };
        renewed.date_if_missing();
        renewed
    }

    /// Sets the date of arrival if the response has no valid date (RFC 9110 section 6.6.1).
    fn date_if_missing(&mut self) {
        let date = super::date::FieldDate::read(&self.headers, &header::DATE);
        if date.valid().is_none()
            && let Ok(now) = HeaderValue::from_str(&format_http_date(self.received))
        {
            let _ = self.headers.try_insert(header::DATE, now);
        }
    }

    /// Returns the status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the stored fields, without `Age`: see [`StoredResponse::age`].
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns when the response arrived, or was last validated.
    #[must_use]
    pub fn received(&self) -> Timestamp {
        self.received
    }

    /// Returns the [`VariantKey`] of the requests that this response may serve.
    #[must_use]
    pub fn variant(&self) -> &VariantKey {
        &self.variant
    }

    /// Returns the [`CacheMode`] in which the response was stored. The response serves only
    /// requests of that mode.
    #[must_use]
    pub fn mode(&self) -> CacheMode {
        self.mode
    }

    /// Returns the age on arrival.
    pub(super) fn initial_age(&self) -> Duration {
        self.initial_age
    }

    /// Returns `current_age` (RFC 9111 section 4.2.3). If the clock steps back, the age does not
    /// decrease, and [`reuse`](super::reuse()) does not treat the response as fresh.
    #[must_use]
    pub fn age(&self, now: Timestamp) -> Duration {
        self.initial_age.saturating_add(now.since(self.received))
    }

    /// Returns the freshness lifetime under the [`FreshnessRules`] (RFC 9111 section 4.2.1). The
    /// response is fresh while the lifetime exceeds its age, unless a directive demands a
    /// validation.
    #[must_use]
    pub fn lifetime(&self, rules: &FreshnessRules) -> Duration {
        lifetime(self, rules)
    }

    /// Returns when the lifetime of the response ends, for the order of eviction.
    #[must_use]
    pub fn stale_at(&self, rules: &FreshnessRules) -> Timestamp {
        let (lifetime, age) = (self.lifetime(rules), self.initial_age);
        let past = i64::try_from(micros(age.saturating_sub(lifetime))).unwrap_or(i64::MAX);
        let at = self.received + lifetime.saturating_sub(age);
        Timestamp::from_micros(at.as_micros().saturating_sub(past))
    }

    /// Returns the [`Validators`] for a validation by the origin.
    #[must_use]
    pub fn validators(&self) -> Validators {
        Validators::of(&self.headers)
    }

    /// Returns whether a body of this many bytes is the whole content (RFC 9111 section 3.3). A
    /// body of another length than `Content-Length` declares is incomplete, and must not be stored.
    #[must_use]
    pub fn is_whole(&self, body_bytes: u64) -> bool {
        let mut lengths = self.headers.get_all(header::CONTENT_LENGTH).iter();
        lengths.all(|length| {
            let stated = length
                .to_str()
                .ok()
                .and_then(|text| text.trim().parse().ok());
            stated == Some(body_bytes)
        })
    }

    /// Returns whether the clock shows a time before the arrival, so that the age is unknown.
    pub(super) fn is_from_the_future(&self, now: Timestamp) -> bool {
        self.received.since(now) > CLOCK_TOLERANCE
    }

    /// Returns the parsed fields that decide about reuse.
    pub(super) fn facts(&self) -> &ResponseFacts {
        self.facts.of(self)
    }
}

/// The persisted form of [`StoredResponse`].
#[derive(Serialize, Deserialize)]
struct PersistedResponse {
    status: u16,
    fields: Vec<(String, String)>,
    received: i64,
    initial_age: u64,
    variant: VariantKey,
    mode: CacheMode,
}

impl From<StoredResponse> for PersistedResponse {
    fn from(stored: StoredResponse) -> Self {
        let latin_1 =
            |value: &HeaderValue| value.as_bytes().iter().copied().map(char::from).collect();
        let fields = stored.headers.iter();
        Self {
            status: stored.status.as_u16(),
            fields: fields
                .map(|(name, value)| (name.to_string(), latin_1(value)))
                .collect(),
            received: stored.received.as_micros(),
            initial_age: micros(stored.initial_age),
            variant: stored.variant,
            mode: stored.mode,
        }
    }
}

/// The reason why persisted bytes are not a [`StoredResponse`].
#[derive(Debug, thiserror::Error)]
enum PersistedError {
    #[error("the persisted status {0} is not a status code")]
    Status(u16),
    #[error("a persisted header field is not valid")]
    Field,
}

impl TryFrom<PersistedResponse> for StoredResponse {
    type Error = PersistedError;

    fn try_from(persisted: PersistedResponse) -> Result<Self, PersistedError> {
        let status = StatusCode::from_u16(persisted.status)
            .map_err(|_| PersistedError::Status(persisted.status))?;
        let mut headers = HeaderMap::new();
        for (name, text) in persisted.fields {
            let bytes = text.chars().map(|character| u8::try_from(character).ok());
            let bytes = bytes
                .collect::<Option<Vec<u8>>>()
                .ok_or(PersistedError::Field)?;
            let name =
                HeaderName::from_bytes(name.as_bytes()).map_err(|_| PersistedError::Field)?;
            let value = HeaderValue::from_bytes(&bytes).map_err(|_| PersistedError::Field)?;
            headers
                .try_append(name, value)
                .map_err(|_| PersistedError::Field)?;
        }
        Ok(Self {
            status,
            headers,
            received: Timestamp::from_micros(persisted.received),
            initial_age: Duration::from_micros(persisted.initial_age),
            variant: persisted.variant,
            mode: persisted.mode,
            facts: FactsOnce::default(),
        })
    }
}
