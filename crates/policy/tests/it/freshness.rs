//! The semantics of an HTTP cache: by section of RFC 9111, against the public suite, an oracle
//! and another implementation.

use std::hash::{DefaultHasher, Hash, Hasher as _};

use docstokg_policy::freshness::{
    CacheExchange, CacheMode, CacheRequest, Digest, ExchangeTimes, FreshnessRules, OriginResponse,
    StorageDecision, StoredResponse, storable,
};
use docstokg_policy::retry_after::format_http_date;
use docstokg_policy::time::Timestamp;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

// Answers from the cache: conditions, ranges, HEAD.
mod answers;
// A second implementation in another shape.
mod oracle;
// What holds for every input.
mod properties;
// The tests of http-tests/cache-tests, run against a cache made of the pure functions.
mod public_suite;
// Section 5.2.1: what requests ask for.
mod requests;
// Sections 4 and 4.2: fresh and stale.
mod reusing;
// Generated exchanges.
mod scene;
// The crate http-cache-semantics as a second opinion.
mod second_opinion;
// Section 3: what is stored, and with which fields.
mod storing;
// The facts of the public suite, and its origin.
mod suite;
// Sections 4.1, 4.3 and 4.4: variants, validation, invalidation.
mod validating;
// A cache and an origin made of the pure functions.
mod world;

/// When the origin's answers are made: noon of 2026-11-16, and a quarter of a second.
pub(crate) const NOON: Timestamp = Timestamp::from_micros(1_794_830_400_250_000);

/// Returns the time `seconds` after noon.
pub(crate) fn after(seconds: i64) -> Timestamp {
    Timestamp::from_micros(NOON.as_micros() + seconds * 1_000_000)
}

/// Hashes for tests: four different digests of eight bytes.
pub(crate) fn hash(bytes: &[u8]) -> Digest {
    let mut digest = [0; 32];
    for (lane, part) in digest.chunks_exact_mut(8).enumerate() {
        let mut hasher = DefaultHasher::new();
        (lane, bytes).hash(&mut hasher);
        part.copy_from_slice(&hasher.finish().to_le_bytes());
    }
    Digest(digest)
}

/// Makes header fields of `name: value` lines; `@N` as a value is the date N seconds after noon.
pub(crate) fn fields(lines: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':').expect("a name and a value");
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        let value = value.trim();
        let date = value.strip_prefix('@').and_then(|text| text.parse().ok());
        let value = date.map_or_else(|| value.to_owned(), |text| format_http_date(after(text)));
        headers.append(
            name,
            HeaderValue::from_bytes(value.as_bytes()).expect("a value"),
        );
    }
    headers
}

/// Decides about storing an answer to GET that took no time and arrived at noon.
pub(crate) fn store(
    rules: &FreshnessRules,
    asked: &HeaderMap,
    status: u16,
    answered: &HeaderMap,
) -> StorageDecision {
    let exchange = CacheExchange {
        request: get(asked),
        response: OriginResponse {
            status: StatusCode::from_u16(status).expect("a status"),
            headers: answered,
        },
        times: ExchangeTimes {
            sent: NOON,
            received: NOON,
        },
    };
    storable(exchange, rules, &hash)
}

/// Stores an answer to GET without fields of its own.
pub(crate) fn stored(rules: &FreshnessRules, status: u16, answered: &[&str]) -> StoredResponse {
    match store(rules, &HeaderMap::new(), status, &fields(answered)) {
        StorageDecision::Store(stored) => *stored,
        StorageDecision::No(reason) => panic!("{answered:?} is not stored: {reason}"),
    }
}

pub(crate) fn get(headers: &HeaderMap) -> CacheRequest<'_> {
    let method = &Method::GET;
    CacheRequest { method, headers }
}

pub(crate) const PRIVATE: FreshnessRules = FreshnessRules::new(CacheMode::Private);
pub(crate) const SHARED: FreshnessRules = FreshnessRules::new(CacheMode::Shared);
