//! Events of requests, as reported to observers. An [`Observer`] receives events, and never changes
//! a decision.

use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::adaptive::Adjustment;
use docstokg_policy::breaker::{BreakerState, OpenReason, Transition};
use docstokg_policy::classify::{AttemptMeaning, Fault};
use docstokg_policy::host::Host;
use docstokg_policy::host_model::learner::ConfirmedLimit;
use docstokg_policy::rate::{LimitBasis, Window};
use docstokg_policy::rate_headers::RateHeaderReading;
use docstokg_policy::retry::StopReason;
use docstokg_policy::role::Role;
use docstokg_policy::site::Refusal;
use http::StatusCode;

use crate::clock::BootInstant;
use crate::error::RefusedBy;
use crate::journey::StaleReason;
use crate::request::RateWait;

/// An event of a request, as observers receive it.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The instant of the event.
    pub at: BootInstant,
    /// The number of the request, from 1 in each hub. 0 for events that belong to no request.
    pub request: u64,
    /// The host of the request.
    pub host: Host,
    /// The role of the request.
    pub role: Role,
    /// The kind of event, with its details.
    pub what: EventKind,
}

/// The kind of an [`Event`], with its details.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EventKind {
    /// A hop of the request begins.
    Hop {
        /// The URL of the hop, without secrets.
        url: String,
        /// The method of the hop.
        method: http::Method,
        /// The resolver that the request belongs to, if any.
        resolver: Option<Arc<str>>,
        /// The kind of request, if the host has a budget for it.
        kind: Option<Arc<str>>,
        /// The service that the request belongs to, if the service has a budget.
        service: Option<Arc<str>>,
        /// The weight of the request.
        weight: u32,
        /// The [`RateWait`] that the request allows.
        wait: RateWait,
    },
    /// The robots.txt of the host allows the URL.
    Robots {
        /// The minimum time between two requests that the robots.txt demands.
        crawl_delay: Option<Duration>,
    },
    /// The cache has no response for the request.
    CacheMiss,
    /// The cache served the response.
    CacheHit {
        /// The status of the response.
        status: StatusCode,
        /// The age of the response.
        age: Duration,
    },
    /// The cache served the response after the origin confirmed it.
    CacheRevalidated {
        /// The status of the response.
        status: StatusCode,
    },
    /// The cache served a stale response.
    CacheStale {
        /// The status of the response.
        status: StatusCode,
        /// The age of the response.
        age: Duration,
        /// The reason for serving a stale response.
        reason: StaleReason,
    },
    /// The cache stored the response of the origin.
    CacheStored,
    /// The request was admitted and is sent.
    Go {
        /// The number of the attempt, from 1.
        attempt: u32,
        /// `true` for a probe of a half-open breaker.
        probe: bool,
        /// The time that the request waited for the rate.
        rate_delay: Duration,
        /// The window that the request waited for last.
        rate_window: Option<Window>,
        /// The time that the request waited for slots.
        slot_wait: Duration,
        /// The time that the request waited for a breaker.
        breaker_wait: Duration,
        /// The [`BreakerState`] of the resolver, if the request belongs to one.
        resolver: Option<BreakerState>,
    },
    /// A HEAD request was admitted without using permits.
    HeadSkipped,
    /// The request waits for a window.
    WaitRate {
        /// The end of the wait.
        until: BootInstant,
        /// The window, or `None` for the jitter of a probe.
        window: Option<Window>,
        /// The [`LimitBasis`] of the window.
        basis: LimitBasis,
    },
    /// The request waits behind others for the same host and role.
    WaitTurn {
        /// The earliest instant at which the request can be admitted.
        not_before: BootInstant,
        /// The total weight of the requests before this one.
        ahead: u32,
    },
    /// The request waits for a free slot.
    WaitSlot,
    /// The request waits for others in flight, because the last requests to the host failed. So an
    /// outage meets few requests.
    WaitCaution {
        /// The number of failures in a row.
        failures: u32,
    },
    /// The request waits because the host has just recovered from an outage, and requests start
    /// gradually.
    WaitSlowStart {
        /// The end of the wait.
        until: BootInstant,
    },
    /// The request waits for the end of a block, or for the result of a probe.
    WaitBreaker {
        /// The latest end of the wait.
        until: BootInstant,
        /// The [`OpenReason`] of the breaker.
        reason: OpenReason,
        /// `true` if a probe is in flight.
        probing: bool,
    },
    /// A block began before the request was sent, so that its permit was given back.
    GivenBack,
    /// The request was refused and used no permit.
    Refused {
        /// The [`Refusal`] with its reason and its end.
        refusal: Refusal,
        /// The breaker or limit that refused the request.
        by: RefusedBy,
        /// The time that the request had waited for the rate.
        waited: Duration,
        /// The [`LimitBasis`] of the limit that refused the request.
        basis: LimitBasis,
    },
    /// A breaker in shadow mode would have refused the request.
    Shadowed(Refusal),
    /// A connection was made for the request.
    Dialled {
        /// The duration of the connection.
        took: Duration,
    },
    /// The headers of the response have arrived.
    Headers {
        /// The status of the response.
        status: StatusCode,
        /// The time from the request to the headers.
        took: Duration,
        /// The wait that the server demands by `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// The headers declare quotas or limits.
    Stated(Box<RateHeaderReading>),
    /// The body has ended.
    Body {
        /// The number of bytes received over the wire.
        received: u64,
        /// The duration of the body.
        took: Duration,
    },
    /// The attempt failed without a complete response.
    Fault {
        /// The class of the fault.
        fault: Fault,
        /// The message of the fault.
        message: String,
    },
    /// The result of the attempt was reported to the breaker.
    Settled {
        /// The [`AttemptMeaning`] of the attempt for the breaker.
        outcome: AttemptMeaning,
    },
    /// A breaker changed its state.
    Breaker {
        /// The name of the breaker: a host or site, `HOST:ROLE` for an isolated role, or
        /// `resolver:NAME`.
        key: Arc<str>,
        /// The change of state.
        transition: Transition,
    },
    /// A breaker was found in another state: another process or an operator changed it.
    BreakerSeen {
        /// The name of the breaker: a host, a site, or `resolver:NAME`.
        key: Arc<str>,
        /// The change of state.
        transition: Transition,
    },
    /// An adaptive rate changed.
    Adapted(Adjustment),
    /// Responses confirmed a limit of the host.
    Learned(ConfirmedLimit),
    /// Another attempt follows.
    Retry {
        /// The instant of that attempt.
        at: BootInstant,
        /// The number of the attempt that failed.
        after: u32,
    },
    /// No further attempt follows.
    Stop {
        /// The [`StopReason`] of the request.
        reason: StopReason,
    },
    /// The response redirects to another URL.
    Redirect {
        /// The new URL, without secrets.
        to: String,
        /// `true` if credentials and cookies are not sent to the new URL.
        stripped: bool,
    },
    /// The request has ended. Always the last event of a request.
    End {
        /// The class of the error, `cancelled` if the caller dropped the request, or `None` after a
        /// response.
        error: Option<&'static str>,
    },
}

/// Receives the events of requests. Implementations must not block.
pub trait Observer: Send + Sync {
    /// Receives an [`Event`].
    fn note(&self, event: &Event);
}
