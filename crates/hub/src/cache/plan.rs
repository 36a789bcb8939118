//! What the cache has to do with an answer of the origin.

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

/// Returns why a request is for the origin; `None` where a fresh response answers it.
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

/// A hop as the cache sees it.
pub(crate) struct CacheQuestion {
    pub(super) key: CacheKey,
    pub(super) rules: FreshnessRules,
    pub(super) method: Method,
    /// The fields that are sent, with who asks in place of credentials.
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

/// The part of the cache in a hop for which the origin is asked.
pub(crate) struct CachePlan {
    pub(super) question: CacheQuestion,
    /// How the invalidations of the key stood before the request was sent.
    pub(super) since: InvalidationStamp,
    /// The stored response that is to be validated, or served if the origin fails.
    pub(super) stored: Option<StoredAnswer>,
    pub(super) validators: Validators,
    pub(super) may_serve: StaleUse,
    pub(super) flight: Mutex<Option<LedFlight>>,
    pub(super) progress: Arc<Mutex<ExchangeProgress>>,
}

/// How far the exchange with the origin is.
#[derive(Default)]
pub(super) struct ExchangeProgress {
    /// When the last request was sent and answered.
    pub(super) times: Option<ExchangeTimes>,
    /// What became of the answer.
    pub(super) kept: CacheStoreResult,
    /// A 304 was about another response: validators are of no use.
    pub(super) is_unconditional: bool,
}

/// What became of an answer of the origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CacheStoreResult {
    /// It has not ended, or broke off.
    #[default]
    Nothing,
    /// It is stored and answers the next request.
    Fresh,
    /// It is stored, and has to be validated before it answers another request.
    Stale,
    /// It may not be stored.
    Not(NotStored),
    /// It is too large, was invalidated meanwhile, or the store cannot be written.
    Failed,
}

impl CachePlan {
    /// Makes the request conditional where there is something to validate.
    pub(crate) fn add_conditions(&self, headers: &mut HeaderMap) {
        if self.is_conditional() {
            self.validators.apply(headers);
        }
    }

    /// Says whether the request has the validators of a stored response.
    pub(crate) fn is_conditional(&self) -> bool {
        !self.validators.is_empty() && !self.progress.lock().is_unconditional
    }

    /// Says whether an answer confirms the stored response.
    pub(crate) fn is_confirmed_by(&self, head: &ResponseHead) -> bool {
        head.status == StatusCode::NOT_MODIFIED && self.is_conditional()
    }

    /// Takes the times of the exchange.
    pub(super) fn note_times(&self, times: ExchangeTimes) {
        self.progress.lock().times = Some(times);
    }

    pub(super) fn kept(&self) -> CacheStoreResult {
        self.progress.lock().kept
    }
}
