//! Why a fetch did not end with an answer. Every message says what, where and why; hints say what
//! to do.

use std::time::Duration;

use docstokg_policy::classify::Fault;
use docstokg_policy::host::{Host, HostError};
use docstokg_stores::StoreError;

use crate::journey::Journey;

mod disposition;
mod refused;

pub use disposition::{Disposition, RetryLater, StatedBy};
pub use refused::{RefusedBy, RefusedRequest};

/// A fetch that ended without an answer.
///
/// Its message says what happened and, after retries, how often and for how long it was tried; what
/// caused it is only in [`source`](std::error::Error::source). [`FetchError::sentence`] has both.
#[derive(Debug)]
pub struct FetchError {
    /// What happened.
    pub kind: ErrorKind,
    /// The URL of the hop it happened on, without secrets.
    pub url: String,
    /// The way up to there.
    pub journey: Journey,
}

impl std::fmt::Display for FetchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.kind)?;
        // Each redirect was an attempt that went well.
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
    /// Returns the message with its causes, each once.
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

/// What the network, the TLS layer or the origin said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Cause(String);

impl Cause {
    /// Returns the text.
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

/// What kept a fetch from ending well.
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
    /// The limiter would make it wait longer than the caller allows.
    #[error("{0}")]
    RateLimited(RefusedRequest),
    /// The store that knows what may be sent does not answer, and config says to refuse then.
    #[error("{host}: nothing was sent")]
    Store {
        /// The host.
        host: Host,
        /// What is wrong with the store.
        #[source]
        error: StoreError,
    },
    /// The deadline passed.
    #[error("{host}: the deadline of {} passed {during}", seconds(*deadline))]
    Deadline {
        /// The host.
        host: Host,
        /// The deadline.
        deadline: Duration,
        /// Doing what.
        during: &'static str,
    },
    /// The caller cancelled the request while it only waited.
    #[error("{host}: cancelled before it was sent")]
    Cancelled {
        /// The host.
        host: Host,
    },
    /// The network, the TLS layer or the origin failed, and retries did not help.
    #[error("{host}: {}", fault_sentence(*fault))]
    Fault {
        /// The host.
        host: Host,
        /// The class.
        fault: Fault,
        /// What happened.
        #[source]
        cause: Cause,
    },
    /// The URL cannot be fetched.
    #[error("this URL cannot be fetched")]
    Url(#[from] HostError),
    /// The target is in the private network.
    #[error("{host} leads to the internal address {address}, which a discovered URL may not reach")]
    Internal {
        /// The host.
        host: String,
        /// The address.
        address: std::net::IpAddr,
    },
    /// A redirect that is not followed.
    #[error("{host}: {why}")]
    Redirect {
        /// The host that redirected.
        host: Host,
        /// What is wrong with it.
        why: String,
    },
    /// The robots.txt of the host does not allow the URL.
    #[error("the robots.txt of {host} does not allow this path")]
    Disallowed {
        /// The host.
        host: Host,
    },
    /// The robots.txt of the host cannot be read, so nothing is requested there for now.
    #[error(
        "the robots.txt of {host} cannot be read, so nothing is requested there{}: {why}",
        if retry_in.is_some() { " for now" } else { "" }
    )]
    RobotsUnread {
        /// The host.
        host: Host,
        /// Why not.
        why: String,
        /// After how long it is worth asking again, where waiting may help.
        retry_in: Option<Duration>,
    },
    /// The cache has no answer, and no origin may be asked.
    #[error("{host}: no stored answer can be used, and the origin may not be asked")]
    NotCached {
        /// The host.
        host: Host,
    },
    /// The body is larger than allowed.
    #[error("{host}: the body is larger than the allowed {limit} bytes")]
    TooLarge {
        /// The host.
        host: Host,
        /// The cap.
        limit: u64,
    },
    /// The body decodes to suspiciously much, or cannot be decoded.
    #[error("{host}: the body cannot be decoded: {why}")]
    Decode {
        /// The host.
        host: Host,
        /// What is wrong.
        why: String,
    },
    /// The weight is above what a window can ever permit.
    #[error("{host}: a weight of {weight} never fits a limit of {limit}")]
    Weight {
        /// The host.
        host: Host,
        /// The weight asked for.
        weight: u32,
        /// The smallest limit.
        limit: u32,
    },
    /// The file could not be written.
    #[error("cannot write {path}")]
    File {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The request itself is malformed.
    #[error("the request cannot be sent: {0}")]
    Unsendable(String),
}

/// Writes a duration for a person: `0.250 s`, `61 s`.
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
    /// Returns the refusal, if it is one: by our own breaker or limiter, worth coming back for.
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

    /// Returns a word for scripts.
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

    /// Returns what a person can do about it.
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
