//! The transport: sends one request, and returns headers and a body. No redirects, no retries, no
//! decoding.
//!
//! The hub uses a [`Transport`]. [`WireTransport`] is the real implementation, and the simulator
//! has its own. If a request needs a new connection, the transport reports this to its
//! [`DialObserver`], because the origin counts arrivals and not permits.

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

/// The addresses that a request may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressReach {
    /// All addresses.
    Anywhere,
    /// All addresses except loopback, private, link-local and other internal ones.
    PublicOnly,
}

/// A request in the form that is sent.
#[derive(Clone, Debug)]
pub struct OutgoingRequest {
    /// The method.
    pub method: Method,
    /// The URL, in the form that is sent.
    pub url: Url,
    /// All headers, except those that the transport adds.
    pub headers: HeaderMap,
    /// The body, which may be empty.
    pub body: Bytes,
    /// The [`AddressReach`] of the request.
    pub reach: AddressReach,
}

/// The head of a response, and its body that has not been read.
pub struct IncomingResponse {
    /// The status of the response.
    pub status: StatusCode,
    /// The version of HTTP.
    pub version: Version,
    /// The headers of the response.
    pub headers: HeaderMap,
    /// The body, which arrives in chunks.
    pub body: Box<dyn Body>,
}

/// A body that arrives in chunks.
pub trait Body: Send {
    /// Returns the next chunk, or `None` at the end. Cancel safe: the future may be dropped and the
    /// method called again.
    ///
    /// # Errors
    /// Returns a [`SendError`] if the body breaks off.
    fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, SendError>>;
}

/// The reason why there is no response, or no further part of one.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The network, the TLS layer or the origin failed.
    #[error("{message}")]
    Fault {
        /// The class of the [`Fault`].
        fault: Fault,
        /// The cause, as text for people.
        message: String,
    },
    /// The connection ended before the response, or in the middle of it.
    #[error("{message}")]
    Closed {
        /// The class of the fault, if the end of the connection counts as one.
        fault: Fault,
        /// The cause, as text for people.
        message: String,
    },
    /// The origin declared that it did not process the request, or the request was never sent. The
    /// request may be sent again like a new one.
    #[error("{message}")]
    Unprocessed {
        /// The cause, as text for people.
        message: String,
    },
    /// The request must not reach the address. Nothing was sent.
    #[error("{host} leads to the internal address {address}")]
    Internal {
        /// The host of the request.
        host: String,
        /// The internal address of the host.
        address: std::net::IpAddr,
    },
    /// The site was blocked while the connection was made. Nothing was sent.
    #[error("the site was blocked while the connection was made")]
    Blocked(Refusal),
    /// The request is malformed and can never be sent.
    #[error("{0}")]
    Unsendable(String),
}

/// Receives the reports of a transport about the connection of a request.
pub trait DialObserver: Send + Sync {
    /// Reports that no connection is available, and that one is being made.
    fn dialling(&self);

    /// Reports that the connection is up, and that the request is about to be sent over it.
    ///
    /// # Errors
    /// Returns the [`Refusal`] if the site was blocked meanwhile: the request must not be sent.
    fn connected(&self) -> BoxFuture<'_, Result<(), Refusal>>;
}

/// Sends single requests.
pub trait Transport: Send + Sync {
    /// Sends `request`, and waits for the headers of the response.
    ///
    /// # Errors
    /// Returns a [`SendError`] if no response arrives.
    fn send(
        &self,
        request: OutgoingRequest,
        dial: Arc<dyn DialObserver>,
    ) -> BoxFuture<'_, Result<IncomingResponse, SendError>>;
}
