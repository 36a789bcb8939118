//! A hop with its name: its URL, host and role. Where the cache has no answer, the lanes follow that
//! each attempt at it has to pass.

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

/// A hop with what names it.
pub(crate) struct NamedHop {
    pub(crate) url: Url,
    pub(crate) host: Host,
    pub(crate) role: Role,
    pub(crate) max_body: Option<u64>,
}

/// A hop that may be asked of its origin.
pub(crate) struct RoutedHop {
    named: NamedHop,
    /// What each attempt has to pass.
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
    /// Makes the first hop of a request.
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
    /// Names a hop.
    ///
    /// # Errors
    /// The URL has no host, or the request has no weight.
    pub(crate) fn of(hop: &Hop, request: &Request) -> Result<Self, ErrorKind> {
        if request.weight == 0 {
            let message = "its weight is 0; give the number of requests that it counts as";
            return Err(ErrorKind::Unsendable(message.to_owned()));
        }
        let host = Host::of(&hop.url)?;
        let role = request.role;
        // What another program asks for is requested as it is, trackers included.
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

    /// Returns the error of a request that was cancelled while it only waited.
    pub(crate) fn cancelled(&self) -> ErrorKind {
        ErrorKind::Cancelled {
            host: self.host.clone(),
        }
    }
}
