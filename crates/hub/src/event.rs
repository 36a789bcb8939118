//! Events of requests, as reported to observers. An [`Observer`] receives events, but cannot change
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

/// An event that an [`Observer`] receives.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The instant of the event.
    pub at: BootInstant,
    /// The number of the request, from 1 in each hub; 0 for an event that belongs to no request.
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
        /// The kind of the request, if the host has a budget for it.
        kind: Option<Arc<str>>,
        /// The service that the request belongs to, if the service has a budget.
        service: Option<Arc<str>>,
        /// The weight of the request.
        weight: u32,
        /// The maximum wait for a rate limit that the request accepts, as a [`RateWait`].
        wait: RateWait,
    },
    /// The robots.txt of the host was read, and allows the URL.
    Robots {
        /// The minimum time between two requests that the robots.txt demands.
        crawl_delay: Option<Duration>,
    },
    /// The cache has no usable response for the request.
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
        /// The reason why a stale response was served.
        reason: StaleReason,
    },
    /// The cache stored the response of the origin.
    CacheStored,
    /// The request was admitted, and is about to be sent.
    Go {
        /// The number of the attempt, from 1.
        attempt: u32,
        /// `true` for a probe of a half-open breaker.
        probe: bool,
        /// The time that the request waited for a rate limit.
        rate_delay: Duration,
        /// The window that the request waited for last; `None` if no window delayed it.
        rate_window: Option<Window>,
        /// The time that the request waited for slots.
        slot_wait: Duration,
        /// The time that the request waited for a breaker that was open or half-open.
        breaker_wait: Duration,
        /// The [`BreakerState`] of the resolver's breaker; `None` if the request belongs to no
        /// resolver.
        resolver: Option<BreakerState>,
    },
    /// A HEAD request was admitted without spending tokens, because HEAD requests of the host are
    /// free.
    HeadSkipped,
    /// The request waits for a window.
    WaitRate {
        /// The end of the wait.
        until: BootInstant,
        /// The window; `None` if the request waits for the random delay of a probe.
        window: Option<Window>,
        /// The [`LimitBasis`] of the window: its source, such as the configuration or a header.
        basis: LimitBasis,
    },
    /// The request waits behind other requests for the same host and role.
    WaitTurn {
        /// The earliest instant at which the request can be admitted.
        not_before: BootInstant,
        /// The total weight of the requests before this one.
        ahead: u32,
    },
    /// The request waits for a free slot.
    WaitSlot,
    /// The request waits for the results of others in flight, because the last requests to the host
    /// failed. So few requests are sent during an outage.
    WaitCaution {
        /// The number of failures in a row at the host.
        failures: u32,
    },
    /// The request waits because the host has just recovered from an outage, after which the rate
    /// grows slowly.
    WaitSlowStart {
        /// The end of the wait.
        until: BootInstant,
    },
    /// The request waits for the end of a block, or for the result of a probe.
    WaitBreaker {
        /// The latest end of the wait, which a change of the breaker may end earlier.
        until: BootInstant,
        /// The [`OpenReason`] why the breaker opened.
        reason: OpenReason,
        /// `true` if a probe is in flight.
        probing: bool,
    },
    /// The host or an operator blocked requests before this one was sent. Its permit was given
    /// back.
    GivenBack,
    /// The request was refused, and spent no token.
    Refused {
        /// The [`Refusal`] with its reason and its end.
        refusal: Refusal,
        /// The breaker or limit that refused the request.
        by: RefusedBy,
        /// The time that the request had waited for a rate limit.
        waited: Duration,
        /// The [`LimitBasis`] of the limit that refused the request: its source.
        basis: LimitBasis,
    },
    /// A breaker in shadow mode would have refused the request.
    Shadowed(Refusal),
    /// A connection was made for the request.
    Dialled {
        /// The time that making the connection took.
        took: Duration,
    },
    /// The headers of the response have arrived.
    Headers {
        /// The status of the response.
        status: StatusCode,
        /// The time from sending the request to its headers.
        took: Duration,
        /// The wait that the server demands by `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// The headers of the response declare quotas or limits.
    Stated(Box<RateHeaderReading>),
    /// The body of the response has ended.
    Body {
        /// The number of bytes received over the wire.
        received: u64,
        /// The time from the headers to the end of the body.
        took: Duration,
    },
    /// The attempt failed without a complete response.
    Fault {
        /// The class of the fault.
        fault: Fault,
        /// The message of the fault, for people.
        message: String,
    },
    /// The result of the attempt was reported to the breaker.
    Settled {
        /// The [`AttemptMeaning`] of the attempt for the breaker, such as success or failure.
        outcome: AttemptMeaning,
    },
    /// A breaker changed its state.
    Breaker {
        /// The name of the breaker: a host or site, `HOST:ROLE` for a role that counts its own
        /// failures, or `resolver:NAME`.
        key: Arc<str>,
        /// The change of state.
        transition: Transition,
    },
    /// This process noticed that another process or an operator changed the state of a breaker.
    BreakerSeen {
        /// The name of the breaker: a host, a site, or `resolver:NAME`.
        key: Arc<str>,
        /// The change of state.
        transition: Transition,
    },
    /// An adaptive rate changed.
    Adapted(Adjustment),
    /// Responses have confirmed a learned limit of the host.
    Learned(ConfirmedLimit),
    /// The attempt failed, and another one follows.
    Retry {
        /// The instant of the next attempt.
        at: BootInstant,
        /// The number of the attempt that failed.
        after: u32,
    },
    /// The attempt failed, and no other one follows.
    Stop {
        /// The [`StopReason`] why the request is not retried.
        reason: StopReason,
    },
    /// The response redirects to another URL.
    Redirect {
        /// The new URL, without secrets.
        to: String,
        /// `true` if credentials and cookies are not sent to the new URL.
        stripped: bool,
    },
    /// The request has ended. This is always its last event.
    End {
        /// The class of the error; `cancelled` if the caller dropped the request; `None` after a
        /// response.
        error: Option<&'static str>,
    },
}

/// Receives the events of requests. An implementation must return without blocking.
///
/// ```
/// use docstokg_hub::event::{Event, Observer};
/// use docstokg_hub::{Hub, config};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// #[derive(Default)]
/// struct EventCounter(AtomicU64);
///
/// impl Observer for EventCounter {
///     fn note(&self, _: &Event) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// let hub = Hub::builder(config::load::shipped()?).observer(Arc::new(EventCounter::default()));
/// # hub.build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Observer: Send + Sync {
    /// Receives an [`Event`].
    fn note(&self, event: &Event);
}
