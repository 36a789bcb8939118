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

/// The record of a request from its beginning to its response or error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journey {
    /// The number of attempts that were sent, over all hops.
    pub attempts: u32,
    /// The number of redirects that were followed.
    pub redirects: u32,
    /// The time spent waiting for rate limits.
    pub rate_delay: Duration,
    /// The time spent waiting for slots, because too many requests were in flight.
    pub slot_wait: Duration,
    /// The time spent waiting for breakers that were open or half-open.
    pub breaker_wait: Duration,
    /// The time spent waiting for another request for the same URL, whose response may serve this
    /// one.
    pub flight_wait: Duration,
    /// The time spent waiting between a failed attempt and its retry.
    pub backoff: Duration,
    /// The time from sending the last attempt to the headers of its response.
    pub header_time: Duration,
    /// The time from the headers to the end of the body, in the last attempt.
    pub body_time: Duration,
    /// The total time of the request.
    pub elapsed: Duration,
    /// The [`StopReason`] why the last attempt was not retried; `None` if it did not fail.
    pub stopped: Option<StopReason>,
    /// The [`RetryLater`] that says when the same request may succeed, if it ended because of a
    /// failure of its host; otherwise `None`.
    pub host_failure: Option<RetryLater>,
    /// The [`CacheUse`] on the last hop.
    pub cache: CacheUse,
    /// The [`ForwardReason`] why the last hop was sent to the origin; `None` if the cache served
    /// it.
    pub forward: Option<ForwardReason>,
}

impl Journey {
    /// Returns the [`Disposition`] of a response that is a failure: the action that is left to the
    /// caller.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match &self.host_failure {
            Some(later) => Disposition::Retry(later.clone()),
            None => Disposition::GiveUp,
        }
    }

    /// Returns whether the response arrived over the network: `false` if the cache served it, also
    /// in place of a failure.
    #[must_use]
    pub const fn is_from_network(&self) -> bool {
        self.attempts > 0 && !matches!(self.cache, CacheUse::Stale { .. })
    }
}

/// The reason why a request is sent to the origin instead of served by the cache. RFC 9211 section
/// 2.2 defines the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardReason {
    /// The request bypasses the cache, or there is no cache.
    Bypass,
    /// The method of the request is never served from the cache.
    Method,
    /// No stored response matches the request.
    Miss,
    /// The stored response must be confirmed by the origin before it is used.
    Stale,
    /// The request does not accept the stored response, because of a directive such as `no-cache`,
    /// or because the caller demands a refresh.
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

/// The reason why a stale response was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleReason {
    /// The origin failed.
    Error,
    /// The breaker of the origin is open.
    BreakerOpen,
    /// The response is validated in the background while it is served.
    Revalidating,
    /// The request accepts a stale response.
    Accepted,
    /// The request may only be served by the cache.
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

    /// Returns whether the body of the response comes from the cache.
    #[must_use]
    pub const fn is_reused(self) -> bool {
        !matches!(self, Self::None | Self::Stored)
    }
}

/// The record of a request that has not ended, for events and for its [`Journey`].
pub(crate) struct RequestTrack {
    pub(crate) journey: Journey,
    pub(crate) started: BootInstant,
    pub(crate) deadline: BootInstant,
    /// The instant after which this hop is not retried; set after its first failure.
    retries_end: Option<BootInstant>,
    /// `true` if a stale response was served and must be validated in the background.
    pub(crate) wants_validation: bool,
    request: u64,
    /// The host and role of the current hop; `None` after the end of the request was reported.
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

    /// Reports an [`Event`] to the observers. Calls `what`, which may be expensive, only if there
    /// are any.
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

    /// Sets the instant after which this hop is not retried, unless it is set already.
    pub(crate) fn begin_retries(&mut self, end: BootInstant) {
        self.retries_end.get_or_insert(end);
    }

    /// Returns the instant by which a retry must end: the deadline of the request, or the end of
    /// the hop's retries if that is earlier.
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

    /// Begins a hop: clears the data of the previous hop, and reports the event `what`.
    pub(crate) fn hop(&mut self, host: &Host, role: Role, what: impl FnOnce() -> EventKind) {
        self.journey.cache = CacheUse::None;
        self.journey.forward = None;
        self.retries_end = None;
        if !self.observers.is_empty() {
            self.at = Some((host.clone(), role));
        }
        self.note(host, role, what);
    }

    /// Records and reports the [`CacheUse`] of a response.
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

    /// Returns the [`Journey`] of the request until now.
    pub(crate) fn so_far(&mut self) -> Journey {
        self.journey.elapsed = self.now().since(self.started);
        self.journey.clone()
    }

    /// Reports the end of the request, unless it is reported already, and returns the [`Journey`].
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
