//! The way to the outside: one request out, headers and a body back. No redirects, no retries, no
//! decoding.
//!
//! The hub speaks to a [`Transport`]; [`reqwest`](self::wire) is the real one, the simulator
//! another. A transport reports to the [`DialObserver`] of a request when it has to make a
//! connection first, since the origin counts arrivals and not permits.

use std::sync::Arc;

use bytes::Bytes;
use docstokg_policy::classify::Fault;
use docstokg_policy::site::Refusal;
use http::{HeaderMap, Method, StatusCode, Version};
use url::Url;

use crate::clock::BoxFuture;

mod addresses;
mod dial;
mod fault;
mod http1_fallback;
mod keep_alive_hosts;
mod tls;
pub mod wire;

pub use addresses::{ConnectTo, environment_proxies};
pub use wire::{TransportError, WireTransport};

/// Which addresses a request may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressReach {
    /// Any.
    Anywhere,
    /// None that is loopback, private, link-local or otherwise internal.
    PublicOnly,
}

/// A request on its way out.
#[derive(Clone, Debug)]
pub struct OutgoingRequest {
    /// The method.
    pub method: Method,
    /// The URL, in the form that is sent.
    pub url: Url,
    /// All headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Which addresses it may reach.
    pub reach: AddressReach,
}

/// The beginning of an answer, and the rest of it to be read.
pub struct IncomingResponse {
    /// The status.
    pub status: StatusCode,
    /// The protocol.
    pub version: Version,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, chunk by chunk.
    pub body: Box<dyn Body>,
}

/// A body that arrives in chunks.
pub trait Body: Send {
    /// Returns the next chunk, or `None` at the end. Safe to drop and call again.
    fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, SendError>>;
}

/// Why there is no answer, or no more of it.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The network, the TLS layer or the origin failed.
    #[error("{message}")]
    Fault {
        /// What class of fault it is.
        fault: Fault,
        /// What happened, for a person.
        message: String,
    },
    /// The connection ended while an answer was waited for, or in the middle of it.
    #[error("{message}")]
    Closed {
        /// What class of fault it is, where it is one.
        fault: Fault,
        /// What happened, for a person.
        message: String,
    },
    /// The origin has said that it did not look at the request, or the request never left: it may
    /// be sent again as if it had not been.
    #[error("{message}")]
    Unprocessed {
        /// What happened, for a person.
        message: String,
    },
    /// The address is one that this request may not reach; nothing was sent.
    #[error("{host} leads to the internal address {address}")]
    Internal {
        /// The host.
        host: String,
        /// Where it leads.
        address: std::net::IpAddr,
    },
    /// The site was blocked while the connection was made; nothing was sent.
    #[error("the site was blocked while the connection was made")]
    Blocked(Refusal),
    /// The request cannot be sent at all.
    #[error("{0}")]
    Unsendable(String),
}

/// Receives what a transport reports about the connection of a request.
pub trait DialObserver: Send + Sync {
    /// No connection is at hand: one is being made.
    fn dialling(&self);

    /// The connection is up and the request is about to leave by it.
    ///
    /// # Errors
    /// The site has been blocked meanwhile: the request must not be sent.
    fn connected(&self) -> BoxFuture<'_, Result<(), Refusal>>;
}

/// Sends one request.
pub trait Transport: Send + Sync {
    /// Sends `request` and waits for the headers of the answer.
    fn send(
        &self,
        request: OutgoingRequest,
        dial: Arc<dyn DialObserver>,
    ) -> BoxFuture<'_, Result<IncomingResponse, SendError>>;
}
