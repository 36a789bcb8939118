//! What happens to a request, as reported to observers. They watch and never steer.

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

/// One thing that happened to one request.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When.
    pub at: BootInstant,
    /// Which request: numbered from 1 in each hub; 0 for what happens outside of any request.
    pub request: u64,
    /// On which host.
    pub host: Host,
    /// In which role.
    pub role: Role,
    /// What.
    pub what: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EventKind {
    /// A hop of the request begins at this URL, shown without secrets.
    Hop {
        /// The URL.
        url: String,
        /// The method.
        method: http::Method,
        /// The resolver on whose behalf it is.
        resolver: Option<Arc<str>>,
        /// The kind of request, where the host has a budget for it.
        kind: Option<Arc<str>>,
        /// The service on whose behalf it is, where that has a budget.
        service: Option<Arc<str>>,
        /// Its weight.
        weight: u32,
        /// How long it may wait for the rate.
        wait: RateWait,
    },
    /// The robots.txt of the host allows the URL.
    Robots {
        /// The time that it asks for between two requests.
        crawl_delay: Option<Duration>,
    },
    /// The cache had nothing to offer.
    CacheMiss,
    /// The cache answered.
    CacheHit {
        /// The status of the answer.
        status: StatusCode,
        /// The age of the answer.
        age: Duration,
    },
    /// The cache answered, and the origin confirmed that the answer is current.
    CacheRevalidated {
        /// The status of the answer.
        status: StatusCode,
    },
    /// The cache answered although the answer is stale.
    CacheStale {
        /// The status of the answer.
        status: StatusCode,
        /// The age of the answer.
        age: Duration,
        /// Why it was served.
        reason: StaleReason,
    },
    /// The answer of the origin is stored.
    CacheStored,
    /// The request was let through.
    Go {
        /// Which attempt, from 1.
        attempt: u32,
        /// Whether it is a probe of a half-open breaker.
        probe: bool,
        /// How long it waited for the rate.
        rate_delay: Duration,
        /// The last window that it waited for.
        rate_window: Option<Window>,
        /// How long it waited for slots.
        slot_wait: Duration,
        /// How long it waited for a breaker.
        breaker_wait: Duration,
        /// How the breaker of its resolver stood, where it is on behalf of one.
        resolver: Option<BreakerState>,
    },
    /// A HEAD request passed without spending tokens.
    HeadSkipped,
    /// It waits for a window.
    WaitRate {
        /// Until when.
        until: BootInstant,
        /// For which window; `None` for the jitter of a probe.
        window: Option<Window>,
        /// What the window is based on.
        basis: LimitBasis,
    },
    /// It waits behind others for the same host and role.
    WaitTurn {
        /// The earliest that its turn can come.
        not_before: BootInstant,
        /// How many weights are before it.
        ahead: u32,
    },
    /// It waits for a free slot.
    WaitSlot,
    /// The last requests to the host failed: it waits for answers to those on their way, so that an
    /// outage meets few.
    WaitCaution {
        /// How many have failed in a row.
        failures: u32,
    },
    /// The host has just come back from an outage: it waits so that not all go at once.
    WaitSlowStart {
        /// Until when.
        until: BootInstant,
    },
    /// It waits for the end of a block, or for the result of a probe.
    WaitBreaker {
        /// Until when at the latest.
        until: BootInstant,
        /// Why the breaker is open, or was.
        reason: OpenReason,
        /// A probe is out.
        probing: bool,
    },
    /// A block came before it was sent: its permit was given back.
    GivenBack,
    /// It was refused; nothing was spent.
    Refused {
        /// Until when, and why.
        refusal: Refusal,
        /// Whose breaker or limit refused it.
        by: RefusedBy,
        /// How long it had waited for the rate by then.
        waited: Duration,
        /// What the limit that refused it is based on.
        basis: LimitBasis,
    },
    /// A breaker in shadow mode would have refused it.
    Shadowed(Refusal),
    /// A connection was made for it.
    Dialled {
        /// How long that took.
        took: Duration,
    },
    /// The headers are there.
    Headers {
        /// The status.
        status: StatusCode,
        /// How long they took.
        took: Duration,
        /// What the server asked for.
        retry_after: Option<Duration>,
    },
    /// The headers state quotas, or limits.
    Stated(Box<RateHeaderReading>),
    /// The body has ended.
    Body {
        /// The bytes that came over the wire.
        received: u64,
        /// How long that took.
        took: Duration,
    },
    /// The attempt failed without a complete answer.
    Fault {
        /// The class.
        fault: Fault,
        /// The message.
        message: String,
    },
    /// The result was reported to the breaker.
    Settled {
        /// What the attempt came to.
        outcome: AttemptMeaning,
    },
    /// A breaker changed its state.
    Breaker {
        /// Whose: a host, a site, `HOST:ROLE` for a role that is open alone, or `resolver:NAME`.
        key: Arc<str>,
        /// How.
        transition: Transition,
    },
    /// A breaker was found in another state: another process or an operator changed it.
    BreakerSeen {
        /// Whose: a host, a site, or `resolver:NAME`.
        key: Arc<str>,
        /// How.
        transition: Transition,
    },
    /// An adaptive rate changed.
    Adapted(Adjustment),
    /// Answers have confirmed a limit of the host.
    Learned(ConfirmedLimit),
    /// There will be another attempt.
    Retry {
        /// When.
        at: BootInstant,
        /// After which attempt.
        after: u32,
    },
    /// There will be none.
    Stop {
        /// Why.
        reason: StopReason,
    },
    /// The answer leads elsewhere.
    Redirect {
        /// Where, without secrets.
        to: String,
        /// Whether credentials and cookies were left behind.
        stripped: bool,
    },
    /// The request has ended. Always its last event.
    End {
        /// What kept it from an answer: the class of its error, or `cancelled` when its caller
        /// dropped it.
        error: Option<&'static str>,
    },
}

/// Watches what happens. Must not block.
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
    /// Takes note of an event.
    fn note(&self, event: &Event);
}
