//! The record of one request: its waits, attempts and use of the cache. Every response has one.

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

/// The record of a request up to its response or error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journey {
    /// The number of requests that were sent, over all hops.
    pub attempts: u32,
    /// The number of redirects that were followed.
    pub redirects: u32,
    /// The time spent waiting for rates.
    pub rate_delay: Duration,
    /// The time spent waiting for slots.
    pub slot_wait: Duration,
    /// The time spent waiting for breakers.
    pub breaker_wait: Duration,
    /// The time spent waiting for another request for the same URL.
    pub flight_wait: Duration,
    /// The time spent waiting before retries.
    pub backoff: Duration,
    /// The time from sending to the headers, of the last attempt.
    pub header_time: Duration,
    /// The time from the headers to the end of the body, of the last attempt.
    pub body_time: Duration,
    /// The total time of the request.
    pub elapsed: Duration,
    /// The [`StopReason`] after a failed last attempt.
    pub stopped: Option<StopReason>,
    /// The [`RetryLater`] of the host that ended the request, if the host may serve the request
    /// later.
    pub host_failure: Option<RetryLater>,
    /// The [`CacheUse`] on the last hop.
    pub cache: CacheUse,
    /// The [`ForwardReason`] for which the last hop was sent to the origin, or `None` after a cache
    /// hit.
    pub forward: Option<ForwardReason>,
}

impl Journey {
    /// Returns the [`Disposition`] of a response that is a failure.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match &self.host_failure {
            Some(later) => Disposition::Retry(later.clone()),
            None => Disposition::GiveUp,
        }
    }

    /// Returns whether a response arrived over the network. `false` for a cache hit, and for a
    /// stale response in place of a failure.
    #[must_use]
    pub const fn is_from_network(&self) -> bool {
        self.attempts > 0 && !matches!(self.cache, CacheUse::Stale { .. })
    }
}

/// The reason for sending a request to the origin instead of using the cache, in the words of RFC
/// 9211 section 2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardReason {
    /// The request bypasses the cache, or there is no cache.
    Bypass,
    /// The method of the request is never served from the cache.
    Method,
    /// No stored response matches the request.
    Miss,
    /// The stored response needs confirmation by the origin.
    Stale,
    /// The request does not accept the stored response, because of `no-cache` or a similar
    /// directive, or because of a refresh.
    Request,
}

impl ForwardReason {
    /// Returns the word of RFC 9211.
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

/// The use of the cache for a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheUse {
    /// The cache neither served nor stored the response.
    #[default]
    None,
    /// The cache stored the response of the origin.
    Stored,
    /// The cache served the response without a request to the origin.
    Hit {
        /// The age of the response.
        age: Duration,
    },
    /// The cache served the response after the origin confirmed it.
    Revalidated,
    /// The cache served a stale response.
    Stale {
        /// The age of the response.
        age: Duration,
        /// The reason for serving a stale response.
        reason: StaleReason,
    },
}

/// The reason for serving a stale response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleReason {
    /// The origin failed.
    Error,
    /// The breaker of the origin is open.
    BreakerOpen,
    /// The response is validated in the background.
    Revalidating,
    /// The request accepts a stale response.
    Accepted,
    /// The request may not be sent to the origin.
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

    /// Returns whether the body comes from the cache.
    #[must_use]
    pub const fn is_reused(self) -> bool {
        !matches!(self, Self::None | Self::Stored)
    }
}

/// The record of a request that has not ended.
pub(crate) struct RequestTrack {
    pub(crate) journey: Journey,
    pub(crate) started: BootInstant,
    pub(crate) deadline: BootInstant,
    /// The end of the time for retries of this hop, set after the first failure.
    retries_end: Option<BootInstant>,
    /// `true` if a stale response was served that has to be validated in the background.
    pub(crate) wants_validation: bool,
    request: u64,
    /// The current hop, until its end is reported.
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

    /// Reports an [`Event`] to the observers. Calls `what` only if there are observers.
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

    /// Sets the end of the time for retries of this hop, unless already set.
    pub(crate) fn begin_retries(&mut self, end: BootInstant) {
        self.retries_end.get_or_insert(end);
    }

    /// Returns the deadline of a retry: the deadline of the request, or the end of its retries.
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

    /// Begins a hop: resets the record of the previous hop, and reports the event.
    pub(crate) fn hop(&mut self, host: &Host, role: Role, what: impl FnOnce() -> EventKind) {
        self.journey.cache = CacheUse::None;
        self.journey.forward = None;
        self.retries_end = None;
        if !self.observers.is_empty() {
            self.at = Some((host.clone(), role));
        }
        self.note(host, role, what);
    }

    /// Records a [`CacheUse`], and reports it.
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

    /// Returns the [`Journey`] up to now.
    pub(crate) fn so_far(&mut self) -> Journey {
        self.journey.elapsed = self.now().since(self.started);
        self.journey.clone()
    }

    /// Reports the end of the request once, and returns the [`Journey`].
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
