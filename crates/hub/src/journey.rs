//! The record of one request: what it waited for and how long. Every response carries it.

use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::host::Host;
use docstokg_policy::retry::StopReason;
use docstokg_policy::role::Role;
use http::StatusCode;

use crate::clock::{BootInstant, Runtime};
use crate::error::{Disposition, ErrorKind, RetryLater};
use crate::event::{Event, EventKind, Observer};
use crate::target::NamedHop;

/// What happened on the way to an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journey {
    /// Requests that were sent, over all hops.
    pub attempts: u32,
    /// Redirects that were followed.
    pub redirects: u32,
    /// Time spent waiting for rates.
    pub rate_delay: Duration,
    /// Time spent waiting for slots.
    pub slot_wait: Duration,
    /// Time spent waiting for breakers.
    pub breaker_wait: Duration,
    /// Time spent waiting for another request for the same URL.
    pub flight_wait: Duration,
    /// Time spent waiting before retries.
    pub backoff: Duration,
    /// Time from sending to headers, of the last attempt.
    pub header_time: Duration,
    /// Time from headers to the end of the body, of the last attempt.
    pub body_time: Duration,
    /// Time over all.
    pub elapsed: Duration,
    /// Why there was no further attempt, when the last one was not good.
    pub stopped: Option<StopReason>,
    /// The failure of the host that ended the request, if the host may serve the request later.
    pub host_failure: Option<RetryLater>,
    /// What the cache did, on the last hop.
    pub cache: CacheUse,
    /// Why the last hop was for the origin; `None` where the cache answered alone.
    pub forward: Option<ForwardReason>,
}

impl Journey {
    /// Returns what a caller can do about a response that is a failure.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match &self.host_failure {
            Some(later) => Disposition::Retry(later.clone()),
            None => Disposition::GiveUp,
        }
    }

    /// Tells whether a response came over the network: the cache has not answered alone, nor in
    /// place of an origin that failed.
    #[must_use]
    pub const fn is_from_network(&self) -> bool {
        self.attempts > 0 && !matches!(self.cache, CacheUse::Stale { .. })
    }
}

/// Why a request is for the origin and not for the cache, in the words of RFC 9211 section 2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardReason {
    /// The cache has no part in it: there is none, or it is left out for such requests.
    Bypass,
    /// It has a method that no stored answer is for.
    Method,
    /// Nothing that is stored answers it.
    Miss,
    /// What is stored answers it only if the origin confirms that.
    Stale,
    /// It does not accept what is stored as it is (`no-cache`, `max-age`, `min-fresh`, a refresh).
    Request,
}

impl ForwardReason {
    /// Returns the word of the RFC.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::Miss => "miss",
            Self::Stale => "stale",
            Self::Request => "request",
        }
    }
}

/// What the cache did for an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheUse {
    /// Nothing: there is none, it was bypassed, or it had no answer and stored none.
    #[default]
    None,
    /// It stored the answer of the origin.
    Stored,
    /// It answered; the origin was not asked.
    Hit {
        /// The age of the answer.
        age: Duration,
    },
    /// It answered, and the origin confirmed that the answer is current.
    Revalidated,
    /// It answered although the answer is stale.
    Stale {
        /// The age of the answer.
        age: Duration,
        /// Why it was served.
        reason: StaleReason,
    },
}

/// Why a stale answer was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleReason {
    /// The origin failed.
    Error,
    /// The breaker of the origin is open.
    BreakerOpen,
    /// It is validated in the background.
    Revalidating,
    /// The request accepts it.
    Accepted,
    /// No origin may be asked.
    Offline,
}

impl StaleReason {
    /// Returns the word used in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::BreakerOpen => "breaker_open",
            Self::Revalidating => "revalidating",
            Self::Accepted => "accepted",
            Self::Offline => "offline",
        }
    }
}

impl CacheUse {
    /// Returns the word used in events: `none`, `stored`, `hit`, `revalidated` or `stale`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Stored => "stored",
            Self::Hit { .. } => "hit",
            Self::Revalidated => "revalidated",
            Self::Stale { .. } => "stale",
        }
    }

    /// Returns whether the body came from the cache.
    #[must_use]
    pub const fn is_reused(self) -> bool {
        !matches!(self, Self::None | Self::Stored)
    }
}

/// A request that has not ended.
pub(crate) struct RequestTrack {
    pub(crate) journey: Journey,
    pub(crate) started: BootInstant,
    pub(crate) deadline: BootInstant,
    /// The end of the time that the retries of this hop may take, once an attempt has failed.
    retries_end: Option<BootInstant>,
    /// A stale answer was served that has to be validated in the background.
    pub(crate) wants_validation: bool,
    request: u64,
    /// The hop it is on, until its end is reported.
    at: Option<(Host, Role)>,
    runtime: Arc<dyn Runtime>,
    observers: Arc<[Arc<dyn Observer>]>,
}

impl RequestTrack {
    pub(crate) fn begin(
        request: u64,
        deadline: Option<Duration>,
        runtime: &Arc<dyn Runtime>,
        observers: &Arc<[Arc<dyn Observer>]>,
    ) -> Self {
        let started = runtime.boot();
        Self {
            journey: Journey::default(),
            started,
            deadline: deadline.map_or(BootInstant::FAR, |deadline| started + deadline),
            retries_end: None,
            wants_validation: false,
            request,
            at: None,
            runtime: Arc::clone(runtime),
            observers: Arc::clone(observers),
        }
    }

    pub(crate) fn now(&self) -> BootInstant {
        self.runtime.boot()
    }

    /// Reports to the observers, if there are any; `what` is made only then.
    pub(crate) fn note(&self, host: &Host, role: Role, what: impl FnOnce() -> EventKind) {
        if !self.observers.is_empty() {
            let event = Event {
                at: self.runtime.boot(),
                request: self.request,
                host: host.clone(),
                role,
                what: what(),
            };
            for observer in &*self.observers {
                observer.note(&event);
            }
        }
    }

    /// Sets the end of the time that the retries of this hop may take, if that is not set.
    pub(crate) fn begin_retries(&mut self, end: BootInstant) {
        self.retries_end.get_or_insert(end);
    }

    /// Returns the deadline of a retry.
    pub(crate) fn retry_deadline(&self) -> BootInstant {
        let end = self.retries_end.unwrap_or(BootInstant::FAR);
        self.deadline.min(end)
    }

    pub(crate) fn deadline_error(&self, host: &Host, during: &'static str) -> ErrorKind {
        ErrorKind::Deadline {
            host: host.clone(),
            deadline: self.deadline.since(self.started),
            during,
        }
    }

    /// Begins a hop.
    pub(crate) fn hop(&mut self, host: &Host, role: Role, what: impl FnOnce() -> EventKind) {
        self.journey.cache = CacheUse::None;
        self.journey.forward = None;
        self.retries_end = None;
        if !self.observers.is_empty() {
            self.at = Some((host.clone(), role));
        }
        self.note(host, role, what);
    }

    /// Takes note of what the cache did.
    pub(crate) fn note_cache(&mut self, target: &NamedHop, used: CacheUse, status: StatusCode) {
        self.journey.cache = used;
        self.note(&target.host, target.role, || match used {
            CacheUse::None => EventKind::CacheMiss,
            CacheUse::Stored => EventKind::CacheStored,
            CacheUse::Hit { age } => EventKind::CacheHit { status, age },
            CacheUse::Revalidated => EventKind::CacheRevalidated { status },
            CacheUse::Stale { age, reason } => EventKind::CacheStale {
                status,
                age,
                reason,
            },
        });
    }

    /// Returns the record up to now.
    pub(crate) fn so_far(&mut self) -> Journey {
        self.journey.elapsed = self.now().since(self.started);
        self.journey.clone()
    }

    /// Reports the end, once, and returns the record.
    pub(crate) fn end(&mut self, error: Option<&'static str>) -> Journey {
        self.report_end(error);
        self.so_far()
    }

    fn report_end(&mut self, error: Option<&'static str>) {
        if let Some((host, role)) = self.at.take() {
            self.note(&host, role, || EventKind::End { error });
        }
    }
}

impl Drop for RequestTrack {
    fn drop(&mut self) {
        self.report_end(Some("cancelled"));
    }
}
