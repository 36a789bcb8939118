//! Naming a hop: its host, site and role, and the lanes that each attempt at it has to pass. The
//! lanes are looked up when the cache has no answer: a hit passes none.

use std::borrow::Borrow;
use std::ops::Deref;
use std::sync::Arc;

use docstokg_policy::canonical;
use docstokg_policy::host::Host;
use docstokg_policy::role::Role;
use http::Method;
use url::Url;

use crate::admission::{Lane, LaneKey, Route};
use crate::error::ErrorKind;
use crate::hub::Inner;
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
pub(crate) struct Target {
    named: NamedHop,
    /// What each attempt has to pass.
    pub(crate) route: Route,
}

impl Deref for Target {
    type Target = NamedHop;

    fn deref(&self) -> &NamedHop {
        &self.named
    }
}

impl Borrow<NamedHop> for Target {
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

impl Inner {
    /// Names a hop.
    ///
    /// # Errors
    /// The URL has no host, or the request costs more than a budget of its route ever has.
    pub(crate) fn name(&self, hop: &Hop, request: &Request) -> Result<NamedHop, ErrorKind> {
        let host = Host::of(&hop.url)?;
        let role = request.role;
        // What another program asks for is requested as it is, trackers included.
        let strips = if request.relay.is_some() {
            Role::Metadata
        } else {
            role
        };
        let named = NamedHop {
            url: canonical::for_request(&hop.url, strips),
            host,
            role,
            max_body: request.max_body,
        };
        if request.weight == 0 {
            let message = "its weight is 0; give the number of requests that it counts as";
            return Err(ErrorKind::Unsendable(message.to_owned()));
        }
        // Every budget has space for a weight of one.
        if request.weight > 1 {
            let site = self.site_lane(&named, hop, request);
            let limits = site.costs.iter().map(|cost| cost.windows.largest_weight());
            if let Some(limit) = limits.min().filter(|limit| request.weight > *limit) {
                return Err(ErrorKind::Weight {
                    host: named.host,
                    weight: request.weight,
                    limit,
                });
            }
        }
        Ok(named)
    }

    /// Returns the lane that a hop takes into its site.
    fn site_lane(&self, named: &NamedHop, hop: &Hop, request: &Request) -> Lane {
        let (host, role) = (&named.host, named.role);
        let is_head_counted = self.config.limits.of(host, role).count_head.value;
        self.registry.lane(&LaneKey {
            kind: request.kind.clone(),
            service: request.service.clone(),
            free: hop.method == Method::HEAD && !is_head_counted,
            ..LaneKey::plain(host, role)
        })
    }

    /// Finds what each attempt at a hop has to pass.
    pub(crate) fn route(&self, named: NamedHop, hop: &Hop, request: &Request) -> Target {
        let (host, role) = (&named.host, named.role);
        let resolver = request.resolver.as_ref().map(|name| {
            let lane = self.registry.resolver_lane(name, host, role);
            (Arc::clone(name), lane)
        });
        let route = Route {
            resolver,
            network: self.registry.network_lane(host, role),
            site: self.site_lane(&named, hop, request),
        };
        Target { named, route }
    }
}
