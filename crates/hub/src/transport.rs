//! The transport: sends one request, and returns the headers and the body of its response. It does
//! not follow redirects, retry or decode.
//!
//! The hub uses a [`Transport`]. [`WireTransport`] is the real implementation, and the simulator
//! has its own. When a request needs a new connection, the transport reports that to the
//! [`DialObserver`]: the origin counts the request when it arrives, which is later than its permit.

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

/// A request as the transport sends it.
#[derive(Clone, Debug)]
pub struct OutgoingRequest {
    /// The method.
    pub method: Method,
    /// The URL, in the form in which it is sent.
    pub url: Url,
    /// All headers, except those that the transport adds.
    pub headers: HeaderMap,
    /// The body, which may be empty.
    pub body: Bytes,
    /// The [`AddressReach`] of the request.
    pub reach: AddressReach,
}

/// A response whose body has not been read.
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
    /// Returns the next chunk; `None` at the end. The method is cancel safe: its future may be
    /// dropped and the method called again.
    ///
    /// # Errors
    /// Returns a [`SendError`] if the body breaks off.
    fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, SendError>>;
}

/// The reason why no response arrived, or why its body broke off.
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
        /// The class of the fault that the end of the connection counts as.
        fault: Fault,
        /// The cause, as text for people.
        message: String,
    },
    /// The origin declared that it did not process the request, or the request was never sent. The
    /// request may be sent again as if it were new.
    #[error("{message}")]
    Unprocessed {
        /// The cause, as text for people.
        message: String,
    },
    /// The host has an internal address, which the request must not reach. Nothing was sent.
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

/// Receives reports of the transport about the connection of one request.
pub trait DialObserver: Send + Sync {
    /// Reports that the pool has no connection for the request, so that one is being made.
    fn dialling(&self);

    /// Reports that the connection is made, and that the request is about to be sent over it.
    ///
    /// # Errors
    /// Returns a [`Refusal`] if the site was blocked while the connection was made. The request
    /// must not be sent then.
    fn connected(&self) -> BoxFuture<'_, Result<(), Refusal>>;
}

/// Sends a request and receives its response.
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
