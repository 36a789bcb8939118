//! A hop as it is sent: the headers that every request carries, and how far it may reach.

use docstokg_policy::host::Host;
use docstokg_policy::role::Role;
use http::header::{ACCEPT, ACCEPT_ENCODING, COOKIE, REFERER, USER_AGENT};
use http::{HeaderMap, HeaderValue};
use url::Url;

use crate::hub::Inner;
use crate::redirect::Hop;
use crate::referer;
use crate::request::{Provenance, Request};
use crate::target::Target;
use crate::transport::{Outgoing, Reach};

impl Inner {
    /// Adds what every request carries to a hop.
    pub(crate) fn outgoing(&self, hop: &Hop, target: &Target, request: &Request) -> Outgoing {
        let mut headers = hop.headers.clone();
        if request.relay.is_some() {
            return self.departing(hop, target, request, headers);
        }
        // Derived anew for each hop: what its own origin may see is not for the next one.
        let page = headers
            .remove(REFERER)
            .and_then(|page| Url::parse(page.to_str().ok()?).ok());
        if let Some(referer) = page.and_then(|page| referer::of(&page, &target.url)) {
            headers.insert(REFERER, referer);
        }
        let (accept, encoding) = accept_of(request.role);
        for (name, value) in [
            (USER_AGENT, self.user_agents[request.role.index()].clone()),
            (ACCEPT, accept),
            (ACCEPT_ENCODING, encoding),
        ] {
            headers.entry(name).or_insert(value);
        }
        if let Some(cookies) = request.jar().and_then(|jar| jar.header(&target.url)) {
            headers.entry(COOKIE).or_insert(cookies);
        }
        self.departing(hop, target, request, headers)
    }

    fn departing(
        &self,
        hop: &Hop,
        target: &Target,
        request: &Request,
        headers: HeaderMap,
    ) -> Outgoing {
        Outgoing {
            method: hop.method.clone(),
            url: target.url.clone(),
            headers,
            body: hop.body.clone(),
            reach: self.reach(target, request),
        }
    }

    /// Says whether the hop may lead into the private network: only where the user supplied its
    /// host.
    fn reach(&self, target: &Target, request: &Request) -> Reach {
        let requested = || {
            request.provenance == Provenance::UserSupplied
                && Host::of(&request.url).is_ok_and(|host| host == target.host)
        };
        let is_trusted = self.config.transport.allow_internal
            || self.user_supplied_hosts.read().contains(&target.host)
            || requested();
        if is_trusted {
            Reach::Anywhere
        } else {
            Reach::PublicOnly
        }
    }
}

/// Returns the `Accept` and `Accept-Encoding` of a role. Files are requested without encoding, so
/// that their length and hash are those of the file.
fn accept_of(role: Role) -> (HeaderValue, HeaderValue) {
    let encoded = HeaderValue::from_static("gzip, deflate, br, zstd");
    match role {
        Role::Metadata => (
            HeaderValue::from_static(
                "application/json, application/xml;q=0.9, text/xml;q=0.9, */*;q=0.5",
            ),
            encoded,
        ),
        Role::Landing => (
            HeaderValue::from_static(
                "text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.5",
            ),
            encoded,
        ),
        Role::Artifact => (
            HeaderValue::from_static(
                "application/pdf, application/xml;q=0.9, text/html;q=0.7, */*;q=0.5",
            ),
            HeaderValue::from_static("identity"),
        ),
    }
}
