//! The values of a stored response that decide about its reuse, parsed once for all look-ups.

use std::sync::OnceLock;
use std::time::Duration;

use http::header;

use super::StoredResponse;
use super::date::FieldDate;
use super::directives::ResponseDirectives;
use super::lifetime::stated;
use crate::time::Timestamp;

/// The parsed fields of a [`StoredResponse`].
#[derive(Clone, Debug)]
pub(super) struct ResponseFacts {
    /// The [`ResponseDirectives`] for a cache of the response's mode.
    pub(super) directives: ResponseDirectives,
    /// The lifetime that the response declares.
    pub(super) stated_lifetime: Option<Duration>,
    /// The `Date` of the response, or the time of its arrival.
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

/// The [`ResponseFacts`] of one stored response, parsed at its first look-up. The facts follow from
/// the fields of the response, so equality ignores them.
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
