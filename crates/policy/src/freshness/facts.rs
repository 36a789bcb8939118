//! What the fields of a stored response say about its reuse, read once for all look-ups.

use std::sync::OnceLock;
use std::time::Duration;

use http::header;

use super::StoredResponse;
use super::date::FieldDate;
use super::directives::ResponseDirectives;
use super::lifetime::stated;
use crate::time::Timestamp;

/// What is read of the fields of a stored response.
#[derive(Clone, Debug)]
pub(super) struct ResponseFacts {
    /// The directives for a cache of its mode.
    pub(super) directives: ResponseDirectives,
    /// The lifetime that it states.
    pub(super) stated_lifetime: Option<Duration>,
    /// Its `Date`, or else when it arrived.
    pub(super) date: Timestamp,
}

impl ResponseFacts {
    fn of(stored: &StoredResponse) -> Self {
        let directives = ResponseDirectives::of(stored.headers(), stored.mode());
        let date = FieldDate::read(stored.headers(), &header::DATE).valid();
        Self {
            stated_lifetime: stated(stored.headers(), &directives, stored.received()),
            date: date.unwrap_or(stored.received()),
            directives,
        }
    }
}

/// The facts of one stored response, from its first look-up on. They follow from its fields, which
/// do not change: it makes no difference to equality.
#[derive(Clone, Debug, Default)]
pub(super) struct FactsOnce(OnceLock<ResponseFacts>);

impl FactsOnce {
    pub(super) fn of(&self, stored: &StoredResponse) -> &ResponseFacts {
        self.0.get_or_init(|| ResponseFacts::of(stored))
    }
}

impl PartialEq for FactsOnce {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for FactsOnce {}
