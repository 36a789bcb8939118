//! A hop with its URL, host and role. If the cache has no response for the hop, a route is added:
//! the admission queues that each of its attempts passes.

use std::borrow::Borrow;
use std::ops::Deref;

use docstokg_policy::canonical;
use docstokg_policy::host::Host;
use docstokg_policy::role::Role;
use url::Url;

use crate::admission::Route;
use crate::error::ErrorKind;
use crate::redirect::Hop;
use crate::request::Request;

/// A hop with its canonical URL, its host and its role.
pub(crate) struct NamedHop {
    pub(crate) url: Url,
    pub(crate) host: Host,
    pub(crate) role: Role,
    pub(crate) max_body: Option<u64>,
}

/// A hop with a route, so that its attempts can be sent to the origin.
pub(crate) struct RoutedHop {
    named: NamedHop,
    /// The [`Route`]: the queues that each attempt passes.
    pub(crate) route: Route,
}

impl Deref for RoutedHop {
    type Target = NamedHop;

    fn deref(&self) -> &NamedHop {
        &self.named
    }
}

impl Borrow<NamedHop> for RoutedHop {
    fn borrow(&self) -> &NamedHop {
        &self.named
    }
}

impl Hop {
    /// Creates the first hop of a [`Request`].
    pub(crate) fn first(request: &Request) -> Self {
        Self {
            method: request.method.clone(),
            url: request.url.clone(),
            headers: request.headers.clone(),
            body: request.body.clone(),
            or_else: None,
        }
    }
}

impl RoutedHop {
    pub(crate) fn new(named: NamedHop, route: Route) -> Self {
        Self { named, route }
    }
}

impl NamedHop {
    /// Determines the canonical URL, the host and the role of a hop.
    ///
    /// # Errors
    /// Returns an [`ErrorKind`] if the URL has no host, or if the weight of the request is zero.
    pub(crate) fn of(hop: &Hop, request: &Request) -> Result<Self, ErrorKind> {
        if request.weight == 0 {
            let message = "its weight is 0; give the number of requests that it counts as";
            return Err(ErrorKind::Unsendable(message.to_owned()));
        }
        let host = Host::of(&hop.url)?;
        let role = request.role;
        // The URL of a relayed request is not changed, not even by removing tracking parameters.
        let strips = if request.relay.is_some() {
            Role::Metadata
        } else {
            role
        };
        Ok(Self {
            url: canonical::for_request(&hop.url, strips),
            host,
            role,
            max_body: request.max_body,
        })
    }

    /// Returns the [`ErrorKind`] of a request that was cancelled while waiting.
    pub(crate) fn cancelled(&self) -> ErrorKind {
        ErrorKind::Cancelled {
            host: self.host.clone(),
        }
    }
}
