//! The headers that every request has, such as `User-Agent` and `Accept`.

use docstokg_policy::role::Role;
use http::header::{ACCEPT, ACCEPT_ENCODING, COOKIE, REFERER, USER_AGENT};
use http::{HeaderMap, HeaderValue};
use url::Url;

use crate::redirect::Hop;
use crate::referer;
use crate::request::Request;
use crate::target::NamedHop;

/// The header fields that every request has, by role. A request may set other values for them.
pub(crate) struct DefaultHeaders([HeaderMap; 3]);

impl DefaultHeaders {
    /// Creates the headers from the `User-Agent` of each role.
    ///
    /// # Errors
    /// Returns the error of `user_agent`.
    pub(crate) fn new<E>(user_agent: impl Fn(Role) -> Result<HeaderValue, E>) -> Result<Self, E> {
        let of = |role| {
            let (accept, encoding) = accept_of(role);
            Ok(HeaderMap::from_iter([
                (USER_AGENT, user_agent(role)?),
                (ACCEPT, accept),
                (ACCEPT_ENCODING, encoding),
            ]))
        };
        let [metadata, landing, artifact] = Role::ALL.map(of);
        Ok(Self([metadata?, landing?, artifact?]))
    }

    /// Returns the default headers of a [`Role`].
    pub(crate) fn of(&self, role: Role) -> &HeaderMap {
        &self.0[role.index()]
    }

    /// Returns the header fields of a hop, with the default ones added.
    pub(crate) fn sent_with(&self, hop: &Hop, target: &NamedHop, request: &Request) -> HeaderMap {
        let mut headers = hop.headers.clone();
        if request.relay.is_some() {
            return headers;
        }
        // The `Referer` is computed again for each hop, because the next origin must not see the
        // one for this origin.
        let page = headers
            .remove(REFERER)
            .and_then(|page| Url::parse(page.to_str().ok()?).ok());
        if let Some(referer) = page.and_then(|page| referer::of(&page, &target.url)) {
            headers.insert(REFERER, referer);
        }
        let defaults = self.of(request.role);
        if headers.is_empty() {
            headers = defaults.clone();
        } else {
            for (name, value) in defaults {
                headers.entry(name).or_insert_with(|| value.clone());
            }
        }
        if let Some(cookies) = request.jar().and_then(|jar| jar.header(&target.url)) {
            headers.entry(COOKIE).or_insert(cookies);
        }
        headers
    }
}

/// Returns the `Accept` and `Accept-Encoding` of a role. A file is requested without encoding, so
/// that the length and the hash of the body are those of the file.
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
