//! The plan of the cache for a hop whose request is sent to the origin.

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

/// Returns the [`ForwardReason`] why a request is sent to the origin; `None` if a fresh response is
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

/// The facts of a hop on which the cache decides: key, rules, method and header fields.
pub(crate) struct CacheQuestion {
    pub(super) key: CacheKey,
    pub(super) rules: FreshnessRules,
    pub(super) method: Method,
    /// The header fields of the request, with an identity in place of its credentials.
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

/// The plan of the cache for a hop whose request is sent to the origin. The cache then validates or
/// replaces the stored response, stores the new one, or serves a stale one if the origin fails.
pub(crate) struct CachePlan {
    pub(super) question: CacheQuestion,
    /// The [`InvalidationStamp`] of the key from before the request was sent. It shows whether the
    /// key was invalidated since.
    pub(super) since: InvalidationStamp,
    /// The [`StoredAnswer`] to validate, or to serve if the origin fails; `None` if nothing is stored.
    pub(super) stored: Option<StoredAnswer>,
    pub(super) validators: Validators,
    pub(super) may_serve: StaleUse,
    pub(super) flight: Mutex<Option<LedFlight>>,
    pub(super) progress: Arc<Mutex<ExchangeProgress>>,
}

/// The state of the exchange with the origin, as far as it has come.
#[derive(Default)]
pub(super) struct ExchangeProgress {
    /// The instants at which the last request was sent and its response received.
    pub(super) times: Option<ExchangeTimes>,
    /// The [`CacheStoreResult`] of the response.
    pub(super) kept: CacheStoreResult,
    /// `true` if a 304 confirmed a response other than the stored one. The request is then sent
    /// again without validators.
    pub(super) is_unconditional: bool,
}

/// The result of storing a response of the origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CacheStoreResult {
    /// The response is not stored, because its body has not ended or broke off.
    #[default]
    Nothing,
    /// The response is stored and fresh, so that it serves the next request.
    Fresh,
    /// The response is stored, but has to be validated before it serves another request.
    Stale,
    /// The response must not be stored, for the reason in [`NotStored`].
    Not(NotStored),
    /// The response is not stored, because it is too large, was invalidated meanwhile, or the store
    /// cannot be written.
    Failed,
}

impl CachePlan {
    /// Makes the request conditional if there is a stored response to validate.
    pub(crate) fn add_conditions(&self, headers: &mut HeaderMap) {
        if self.is_conditional() {
            self.validators.apply(headers);
        }
    }

    /// Returns whether the request will have the validators of a stored response.
    pub(crate) fn is_conditional(&self) -> bool {
        !self.validators.is_empty() && !self.progress.lock().is_unconditional
    }

    /// Returns whether a response confirms the stored one: a 304 to a conditional request.
    pub(crate) fn is_confirmed_by(&self, head: &ResponseHead) -> bool {
        head.status == StatusCode::NOT_MODIFIED && self.is_conditional()
    }

    /// Records the [`ExchangeTimes`]: when the request was sent and its response received.
    pub(super) fn note_times(&self, times: ExchangeTimes) {
        self.progress.lock().times = Some(times);
    }

    pub(super) fn kept(&self) -> CacheStoreResult {
        self.progress.lock().kept
    }
}
