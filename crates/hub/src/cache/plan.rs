//! The plan of the cache for a response of the origin: validate, store, or serve stale.

use std::sync::Arc;

use docstokg_policy::freshness::{
    CacheRequest, ExchangeTimes, FreshnessRules, NotStored, ReuseDecision, StaleUse,
    ValidationReason, Validators,
};
use docstokg_stores::cache::{CacheKey, InvalidationStamp};
use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;

use super::StoredAnswer;
use super::flights::LedFlight;
use crate::journey::ForwardReason;
use crate::response::ResponseHead;

/// Returns the [`ForwardReason`] of a request to the origin, or `None` if a fresh response is
/// stored.
pub(super) fn forward_of(reuse: &ReuseDecision) -> Option<ForwardReason> {
    Some(match reuse {
        ReuseDecision::Fresh { .. } => return None,
        ReuseDecision::Bypass(_) => ForwardReason::Bypass,
        ReuseDecision::Miss | ReuseDecision::OnlyIfCachedFailure => ForwardReason::Miss,
        ReuseDecision::Stale { .. } => ForwardReason::Stale,
        ReuseDecision::Revalidate { why, .. } => match why {
            ValidationReason::RequestNoCache
            | ValidationReason::RequestMaxAge
            | ValidationReason::RequestMinFresh => ForwardReason::Request,
            ValidationReason::ResponseNoCache | ValidationReason::ClockStepped => {
                ForwardReason::Stale
            }
        },
    })
}

/// The facts of a hop that the cache needs: key, rules, method and fields.
pub(crate) struct CacheQuestion {
    pub(super) key: CacheKey,
    pub(super) rules: FreshnessRules,
    pub(super) method: Method,
    /// The fields that are sent, with an identity in place of credentials.
    pub(super) headers: Arc<HeaderMap>,
}

impl CacheQuestion {
    pub(super) fn request(&self) -> CacheRequest<'_> {
        CacheRequest {
            method: &self.method,
            headers: &self.headers,
        }
    }
}

/// The plan of the cache for a hop whose request is sent to the origin: validate, store, or serve
/// stale.
pub(crate) struct CachePlan {
    pub(super) question: CacheQuestion,
    /// The [`InvalidationStamp`] of the key before the request was sent.
    pub(super) since: InvalidationStamp,
    /// The [`StoredAnswer`] to validate, or to serve if the origin fails.
    pub(super) stored: Option<StoredAnswer>,
    pub(super) validators: Validators,
    pub(super) may_serve: StaleUse,
    pub(super) flight: Mutex<Option<LedFlight>>,
    pub(super) progress: Arc<Mutex<ExchangeProgress>>,
}

/// The progress of the exchange with the origin.
#[derive(Default)]
pub(super) struct ExchangeProgress {
    /// The instants at which the last request was sent and its response received.
    pub(super) times: Option<ExchangeTimes>,
    /// The [`CacheStoreResult`] of the response.
    pub(super) kept: CacheStoreResult,
    /// `true` if a 304 confirmed another response: the request is then sent without validators.
    pub(super) is_unconditional: bool,
}

/// The result of storing a response of the origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CacheStoreResult {
    /// The response has not ended, or broke off.
    #[default]
    Nothing,
    /// The response is stored and fresh, so that it serves the next request.
    Fresh,
    /// The response is stored, but has to be validated before it serves another request.
    Stale,
    /// The response must not be stored, for the reason in [`NotStored`].
    Not(NotStored),
    /// The response is too large, was invalidated meanwhile, or the store cannot be written.
    Failed,
}

impl CachePlan {
    /// Makes the request conditional if there is a stored response to validate.
    pub(crate) fn add_conditions(&self, headers: &mut HeaderMap) {
        if self.is_conditional() {
            self.validators.apply(headers);
        }
    }

    /// Returns whether the request has the validators of a stored response.
    pub(crate) fn is_conditional(&self) -> bool {
        !self.validators.is_empty() && !self.progress.lock().is_unconditional
    }

    /// Returns whether a response confirms the stored one: a 304 to a conditional request.
    pub(crate) fn is_confirmed_by(&self, head: &ResponseHead) -> bool {
        head.status == StatusCode::NOT_MODIFIED && self.is_conditional()
    }

    /// Records the [`ExchangeTimes`] of the exchange.
    pub(super) fn note_times(&self, times: ExchangeTimes) {
        self.progress.lock().times = Some(times);
    }

    pub(super) fn kept(&self) -> CacheStoreResult {
        self.progress.lock().kept
    }
}
