//! The errors of a fetch. A message names the problem, the place and the cause; a hint names a
//! remedy.

use std::time::Duration;

use docstokg_policy::classify::Fault;
use docstokg_policy::host::{Host, HostError};
use docstokg_stores::StoreError;

use crate::journey::Journey;

mod disposition;
mod refused;

pub use disposition::{Disposition, RetryLater, StatedBy};
pub use refused::{RefusedBy, RefusedRequest};

/// A fetch that failed.
///
/// Its message names the problem and, after retries, their number and duration. The cause is
/// separate, in [`source`](std::error::Error::source). [`FetchError::sentence`] has both.
#[derive(Debug)]
pub struct FetchError {
    /// The kind of error, with its details.
    pub kind: ErrorKind,
    /// The URL of the hop that failed, without secrets.
    pub url: String,
    /// The [`Journey`] of the fetch up to the error.
    pub journey: Journey,
}

impl std::fmt::Display for FetchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.kind)?;
        // Each redirect was a successful attempt, so it is not counted among the retries.
        let attempts = self.journey.attempts.saturating_sub(self.journey.redirects);
        if attempts > 1 {
            let elapsed = seconds(self.journey.elapsed);
            write!(f, " (after {attempts} attempts in {elapsed})")?;
        }
        Ok(())
    }
}

impl std::error::Error for FetchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.kind.source()
    }
}

impl FetchError {
    /// Returns the message with all its causes.
    ///
    /// ```
    /// use docstokg_hub::Request;
    /// # use docstokg_origin_sim::{OriginScript, ScriptedReply, Simulation};
    /// # let simulation = Simulation::exact();
    /// # let (hub, _web) = simulation.hub([OriginScript::new("a.example")]);
    /// # simulation.block_on(async move {
    /// let request = Request::get("http://unknown.example/".parse()?);
    /// let error = hub.fetch(request).await.unwrap_err();
    /// assert_eq!(error.kind.class(), "dns");
    /// assert!(error.sentence().starts_with("unknown.example: the name could not be resolved"));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[must_use]
    pub fn sentence(&self) -> String {
        let mut sentence = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            sentence.push_str(": ");
            sentence.push_str(&error.to_string());
            cause = error.source();
        }
        sentence
    }
}

/// The message of the network, the TLS layer or the origin about a fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Cause(String);

impl Cause {
    /// Returns the message as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Cause {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// The reason why a fetch failed.
///
/// ```
/// use docstokg_hub::{ErrorKind, Request};
/// # use docstokg_origin_sim::{OriginScript, ScriptedReply, Simulation};
/// # let simulation = Simulation::exact();
/// # let origin = OriginScript::new("a.example").route("/dump", [ScriptedReply::ok("0123456789")]);
/// # let (hub, _web) = simulation.hub([origin]);
/// # simulation.block_on(async move {
/// let request = Request::get("http://a.example/dump".parse()?).max_body(4);
/// let error = hub.fetch(request).await.unwrap_err();
/// assert!(matches!(error.kind, ErrorKind::TooLarge { limit: 4, .. }));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The breaker of a host or resolver is open.
    #[error("{0}")]
    BreakerOpen(RefusedRequest),
    /// The limiter demands a longer wait than the caller allows.
    #[error("{0}")]
    RateLimited(RefusedRequest),
    /// The store of limits is unavailable, and the configuration refuses requests then.
    #[error("{host}: nothing was sent")]
    Store {
        /// The host of the request.
        host: Host,
        /// The [`StoreError`] of the store.
        #[source]
        error: StoreError,
    },
    /// The deadline of the request passed.
    #[error("{host}: the deadline of {} passed {during}", seconds(*deadline))]
    Deadline {
        /// The host of the request.
        host: Host,
        /// The length of the deadline, measured from the beginning of the request.
        deadline: Duration,
        /// The activity of the request when the deadline passed, as text.
        during: &'static str,
    },
    /// The caller cancelled the request before it was sent.
    #[error("{host}: cancelled before it was sent")]
    Cancelled {
        /// The host of the request.
        host: Host,
    },
    /// The network, the TLS layer or the origin failed, and retries did not help.
    #[error("{host}: {}", fault_sentence(*fault))]
    Fault {
        /// The host of the request.
        host: Host,
        /// The class of the fault.
        fault: Fault,
        /// The message of the fault.
        #[source]
        cause: Cause,
    },
    /// The URL cannot be fetched.
    #[error("this URL cannot be fetched")]
    Url(#[from] HostError),
    /// The URL was found in a response, and its host has an internal address.
    #[error("{host} leads to the internal address {address}, which a discovered URL may not reach")]
    Internal {
        /// The host of the URL.
        host: String,
        /// The internal address.
        address: std::net::IpAddr,
    },
    /// A redirect that the hub does not follow.
    #[error("{host}: {why}")]
    Redirect {
        /// The host that redirected.
        host: Host,
        /// The problem of the redirect, as text.
        why: String,
    },
    /// The robots.txt of the host does not allow the URL.
    #[error("the robots.txt of {host} does not allow this path")]
    Disallowed {
        /// The host of the URL.
        host: Host,
    },
    /// The robots.txt of the host cannot be read. Until it can be, no request is sent to the host.
    #[error(
        "the robots.txt of {host} cannot be read, so nothing is requested there{}: {why}",
        if retry_in.is_some() { " for now" } else { "" }
    )]
    RobotsUnread {
        /// The host of the URL.
        host: Host,
        /// The reason, as text.
        why: String,
        /// The time until another attempt is useful, or `None` if waiting does not help.
        retry_in: Option<Duration>,
    },
    /// The cache has no usable response, and the request may only be served from the cache.
    #[error("{host}: no stored answer can be used, and the origin may not be asked")]
    NotCached {
        /// The host of the URL.
        host: Host,
    },
    /// The body is larger than allowed.
    #[error("{host}: the body is larger than the allowed {limit} bytes")]
    TooLarge {
        /// The host of the request.
        host: Host,
        /// The maximum size in bytes.
        limit: u64,
    },
    /// The body cannot be decoded, or expands by more than the maximum ratio.
    #[error("{host}: the body cannot be decoded: {why}")]
    Decode {
        /// The host of the request.
        host: Host,
        /// The problem, as text.
        why: String,
    },
    /// The weight of the request exceeds the limit of a window, so that it can never be sent.
    #[error("{host}: a weight of {weight} never fits a limit of {limit}")]
    Weight {
        /// The host of the request.
        host: Host,
        /// The weight of the request.
        weight: u32,
        /// The largest weight that all windows of the request allow.
        limit: u32,
    },
    /// The file could not be written.
    #[error("cannot write {path}")]
    File {
        /// The path of the file.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The request itself is malformed, for the reason in the text.
    #[error("the request cannot be sent: {0}")]
    Unsendable(String),
}

/// Formats a duration for people: `0.250 s`, `61 s`.
pub(crate) fn seconds(length: Duration) -> String {
    if length < Duration::from_secs(10) {
        format!("{:.3} s", length.as_secs_f64())
    } else {
        format!("{:.0} s", length.as_secs_f64().ceil())
    }
}

fn fault_sentence(fault: Fault) -> &'static str {
    match fault {
        Fault::Dns => "the name could not be resolved",
        Fault::NoRoute | Fault::OpenFiles => "this machine cannot reach it",
        Fault::Connect => "no connection could be made",
        Fault::Tls => "the TLS handshake failed",
        Fault::Write => "the request could not be written",
        Fault::ConnectionClosed => "it ended the connection before it answered",
        Fault::Read => "the answer broke off",
        Fault::Timeout => "it did not answer in time",
    }
}

impl ErrorKind {
    /// Returns the [`RefusedRequest`] if a breaker or the limiter of the hub refused the request,
    /// which may then be sent later; otherwise `None`.
    ///
    /// ```
    /// use docstokg_hub::{Host, Request};
    /// use std::time::Duration;
    /// # use docstokg_origin_sim::{OriginScript, ScriptedReply, Simulation};
    /// # let simulation = Simulation::exact();
    /// # let (hub, _web) = simulation.hub([OriginScript::new("a.example")]);
    /// # simulation.block_on(async move {
    /// hub.block(&Host::parse("a.example")?, Duration::from_secs(60), "maintenance").await?;
    /// let error = hub.fetch(Request::get("http://a.example/".parse()?)).await.unwrap_err();
    /// assert!(error.kind.refused().is_some(), "the request may be sent later");
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[must_use]
    pub fn refused(&self) -> Option<&RefusedRequest> {
        match self {
            Self::BreakerOpen(refused) | Self::RateLimited(refused) => Some(refused),
            _ => None,
        }
    }

    /// Returns the class of the error as a word for scripts.
    #[must_use]
    pub const fn class(&self) -> &'static str {
        match self {
            Self::BreakerOpen(_) => "breaker_open",
            Self::RateLimited(_) => "rate_limited",
            Self::Store { .. } => "store_unavailable",
            Self::Deadline { .. } => "deadline",
            Self::Cancelled { .. } => "cancelled",
            Self::Fault { fault, .. } => fault.as_str(),
            Self::Url(_) => "url",
            Self::Internal { .. } => "internal_address",
            Self::Redirect { .. } => "redirect",
            Self::Disallowed { .. } => "disallowed",
            Self::RobotsUnread { .. } => "robots_unreachable",
            Self::NotCached { .. } => "not_cached",
            Self::TooLarge { .. } => "too_large",
            Self::Decode { .. } => "decode",
            Self::Weight { .. } => "weight",
            Self::File { .. } => "file",
            Self::Unsendable(_) => "unsendable",
        }
    }

    /// Returns a hint for the user, if there is a remedy.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::BreakerOpen(RefusedRequest {
                by: RefusedBy::Resolver(_),
                ..
            }) => "other resolvers are not affected",
            Self::RateLimited(_) => {
                "a longer max_delay_ms for this host and role (--rate) waits instead of refusing"
            }
            Self::Store { .. } => {
                "on_store_failure: local goes on with a share of the limits while the store is \
                 unavailable"
            }
            Self::Deadline { .. } => "--deadline SECONDS allows more time",
            Self::Disallowed { .. } | Self::RobotsUnread { .. } => {
                "without --obey-robots, robots.txt is not asked"
            }
            Self::Fault {
                fault: Fault::Tls, ..
            } => "--cacert FILE trusts a further certificate",
            Self::Fault {
                fault: Fault::OpenFiles,
                ..
            } => {
                "the process may open no more files: raise ulimit -n, or run fewer at once with \
                 --max-inflight"
            }
            Self::BreakerOpen(RefusedRequest {
                by: RefusedBy::Network,
                ..
            })
            | Self::Fault {
                fault: Fault::Dns | Fault::NoRoute,
                ..
            } => "check the name and this machine's network",
            Self::Internal { .. } => {
                "type the host yourself, map it with --connect-to, or set transport.allow_internal"
            }
            Self::NotCached { .. } => "without --offline the origin is asked",
            Self::File { .. } => {
                "the directory must exist, be writable and have room; nothing was left half-written"
            }
            Self::TooLarge { .. } => {
                "transport.max_body_bytes and transport.max_file_bytes set the caps"
            }
            _ => return None,
        })
    }
}
