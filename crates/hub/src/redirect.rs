//! The interpretation of redirects: the next URL, and the header fields that are sent to it. Pure
//! functions, without I/O.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use url::Url;

use crate::redact::is_credential;
use crate::request::RedirectGate;

/// The request of one hop.
#[derive(Clone, Debug)]
pub(crate) struct Hop {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// The http URL to request if this hop fails. The hop tries https instead of http, to which a
    /// redirect leads; `None` for other hops.
    pub(crate) or_else: Option<Url>,
}

impl Hop {
    /// Returns the hop with the URL of the redirect, without the attempt at https.
    pub(crate) fn into_original(self) -> Self {
        let url = self.or_else.clone().unwrap_or_else(|| self.url.clone());
        Self {
            url,
            or_else: None,
            ..self
        }
    }

    fn turn_into_get(&mut self) {
        self.method = Method::GET;
        self.body = Bytes::new();
        for name in [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING] {
            self.headers.remove(name);
        }
    }

    /// Removes all header fields with credentials, and returns whether there were any.
    fn strip_credentials(&mut self, secret_headers: &[HeaderName]) -> bool {
        let is_secret = |(name, value): (&HeaderName, &HeaderValue)| {
            is_credential(name, value) || secret_headers.contains(name)
        };
        let fields = self.headers.iter();
        let secret: Vec<HeaderName> = fields
            .filter(|field| is_secret(*field))
            .map(|(name, _)| name.clone())
            .collect();
        for name in &secret {
            self.headers.remove(name);
        }
        !secret.is_empty()
    }
}

/// The rules that decide which redirects are followed, and with which headers.
pub(crate) struct RedirectRules<'a> {
    /// The names of the request's header fields whose caller says that they contain credentials.
    pub(crate) secret_headers: &'a [HeaderName],
    /// `true` if a redirect may lead from https to http.
    pub(crate) allow_downgrade: bool,
    /// The [`RedirectGate`] of the caller, if any.
    pub(crate) gate: Option<&'a RedirectGate>,
    /// A function that returns whether the host of a URL is remembered as not serving https.
    pub(crate) is_plain: &'a dyn Fn(&Url) -> bool,
}

/// The meaning of a response with respect to redirects.
#[derive(Debug)]
pub(crate) enum RedirectOutcome {
    /// The response is not a redirect.
    No,
    /// The response redirects to a URL that may be requested.
    To {
        /// The next hop.
        hop: Box<Hop>,
        /// `true` if header fields with credentials were removed for the next hop.
        stripped: bool,
    },
    /// The redirect must not be followed, for the reason in the text.
    Refused(String),
}

/// Hosts that resolve DOIs and handles. They redirect to URLs that publishers registered long ago,
/// often with http. Requests to them need no credentials.
const LINK_RESOLVERS: [&str; 5] = [
    "doi.org",
    "dx.doi.org",
    "www.doi.org",
    "hdl.handle.net",
    "handle.net",
];

fn is_link_resolver(url: &Url) -> bool {
    url.host_str()
        .is_some_and(|host| LINK_RESOLVERS.contains(&host))
}

/// Reads a redirect (RFC 9110 section 15.4).
///
/// - 301 and 302 change POST to GET, as in every client.
/// - 303 changes every method except HEAD to GET.
/// - 307 and 308 keep method and body.
///
/// Authorization, cookies and other credentials are not sent to another origin.
pub(crate) fn read(
    hop: &Hop,
    status: StatusCode,
    headers: &HeaderMap,
    rules: &RedirectRules<'_>,
) -> RedirectOutcome {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return RedirectOutcome::No;
    }
    let Some(location) = headers.get(LOCATION) else {
        return RedirectOutcome::No;
    };
    let location = String::from_utf8_lossy(location.as_bytes());
    let (url, or_else) = match target(hop, location.trim(), rules) {
        Ok(target) => target,
        Err(why) => return RedirectOutcome::Refused(why),
    };
    let mut next = Hop {
        method: hop.method.clone(),
        url,
        headers: hop.headers.clone(),
        body: hop.body.clone(),
        or_else,
    };
    if becomes_get(status, &hop.method) {
        next.turn_into_get();
    }
    let stripped =
        next.url.origin() != hop.url.origin() && next.strip_credentials(rules.secret_headers);
    RedirectOutcome::To {
        hop: Box::new(next),
        stripped,
    }
}

/// Returns the URL to request after a redirect. If https is tried instead of its http, the second
/// value is the http URL.
///
/// # Errors
/// Returns the reason why the redirect must not be followed.
fn target(
    hop: &Hop,
    location: &str,
    rules: &RedirectRules<'_>,
) -> Result<(Url, Option<Url>), String> {
    let mut url = hop
        .url
        .join(location)
        .map_err(|error| format!("it redirects to something that is no URL ({error})"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("it redirects to a {} URL", url.scheme()));
    }
    if let Some(gate) = rules.gate {
        url = gate(&url).map_err(|why| format!("its redirect is not followed: {why}"))?;
    }
    let mut or_else = None;
    if hop.url.scheme() == "https" && url.scheme() == "http" && !rules.allow_downgrade {
        if !is_link_resolver(&hop.url) {
            return Err(
                "it redirects from https to http, which is not allowed (transport.allow_downgrade)"
                    .to_owned(),
            );
        }
        // A third of the registered URLs begin with http. Because no credentials are sent, https is
        // tried first, and the registered URL if that fails.
        if url.port().is_none() && !(rules.is_plain)(&url) {
            or_else = Some(url.clone());
            let _ = url.set_scheme("https");
        }
    }
    // A target without a fragment inherits the fragment of the request (RFC 9110 section 10.2.2).
    if url.fragment().is_none() {
        url.set_fragment(hop.url.fragment());
    }
    Ok((url, or_else))
}

fn becomes_get(status: StatusCode, method: &Method) -> bool {
    match status.as_u16() {
        303 => method != Method::HEAD && method != Method::GET,
        301 | 302 => method == Method::POST,
        _ => false,
    }
}

/// A completed hop: its URL, and the cookies that it sent.
pub(crate) type VisitedHop = (Url, Option<HeaderValue>);

/// Refuses a redirect that leads in a circle, or that makes a chain of more than `most` redirects.
/// A URL that was visited before is not a circle if its cookies have changed since.
///
/// # Errors
/// Returns the reason as text.
pub(crate) fn check_chain(
    visited: &[VisitedHop],
    next: &Hop,
    cookies: Option<HeaderValue>,
    most: u32,
) -> Result<(), String> {
    if visited.contains(&(next.url.clone(), cookies)) {
        return Err("it redirects in a circle".to_owned());
    }
    if visited.len() > most as usize {
        return Err(format!("there are more than {most} redirects"));
    }
    Ok(())
}

/// Returns whether a response to an https request that was only tried means that the site does not
/// serve https.
pub(crate) fn is_not_served(status: StatusCode) -> bool {
    matches!(status.as_u16(), 400 | 404 | 421)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: RedirectRules<'static> = RedirectRules {
        secret_headers: &[],
        allow_downgrade: false,
        gate: None,
        is_plain: &|_| false,
    };

    fn hop(method: Method, url: &str) -> Hop {
        let mut headers = HeaderMap::new();
        for name in [
            "authorization",
            "cookie",
            "x-els-apikey",
            "private-token",
            "x-shibboleth-session",
            "accept",
            "content-type",
            "x-mine",
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static("v"));
        }
        Hop {
            method,
            url: Url::parse(url).unwrap(),
            headers,
            body: Bytes::from_static(b"b"),
            or_else: None,
        }
    }

    fn go(from: &Hop, status: u16, to: &str) -> RedirectOutcome {
        let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_str(to).unwrap())]);
        read(
            from,
            StatusCode::from_u16(status).unwrap(),
            &headers,
            &RedirectRules {
                secret_headers: &[HeaderName::from_static("x-mine")],
                ..STRICT
            },
        )
    }

    fn next(from: &Hop, status: u16, to: &str) -> (Hop, bool) {
        match go(from, status, to) {
            RedirectOutcome::To { hop, stripped } => (*hop, stripped),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn methods_change_as_the_rfc_says() {
        for (status, method, becomes) in [
            (301, "POST", "GET"),
            (302, "POST", "GET"),
            (303, "POST", "GET"),
            (307, "POST", "POST"),
            (308, "POST", "POST"),
            (301, "PUT", "PUT"),
            (303, "PUT", "GET"),
            (303, "HEAD", "HEAD"),
            (302, "GET", "GET"),
        ] {
            let (hop, _) = next(
                &hop(method.parse().unwrap(), "https://a.org/x"),
                status,
                "/y",
            );
            assert_eq!(hop.method.as_str(), becomes, "{status} {method}");
            assert_eq!(hop.body.is_empty(), becomes != method, "{status} {method}");
            assert_eq!(
                hop.headers.contains_key(CONTENT_TYPE),
                becomes == method,
                "{status} {method}"
            );
        }
    }

    #[test]
    fn credentials_stay_behind_when_the_origin_changes() {
        let from = hop(Method::GET, "https://a.org/x");
        for (to, kept) in [
            ("/y", true),
            ("https://a.org/y", true),
            ("https://b.org/", false),
            ("https://a.org:8443/", false),
            ("//c.a.org/", false),
        ] {
            let (hop, stripped) = next(&from, 302, to);
            for name in [
                "authorization",
                "cookie",
                "x-els-apikey",
                "private-token",
                "x-shibboleth-session",
                "x-mine",
            ] {
                assert_eq!(hop.headers.contains_key(name), kept, "{to} {name}");
            }
            assert_eq!(stripped, !kept);
            assert!(hop.headers.contains_key("accept"));
        }
    }

    #[test]
    fn redirect_to_http_or_without_a_valid_location_is_not_followed() {
        let from = hop(Method::GET, "https://a.org/x");
        let downgrade = go(&from, 302, "http://a.org/");
        assert!(
            matches!(&downgrade, RedirectOutcome::Refused(why) if why.contains("https to http")),
            "{downgrade:?}"
        );
        assert!(matches!(
            go(&from, 302, "file:///etc/passwd"),
            RedirectOutcome::Refused(_)
        ));
        assert!(matches!(
            go(&from, 302, "http://["),
            RedirectOutcome::Refused(_)
        ));
        assert!(matches!(go(&from, 304, "/y"), RedirectOutcome::No));
        assert!(matches!(
            read(&from, StatusCode::FOUND, &HeaderMap::new(), &STRICT),
            RedirectOutcome::No
        ));
    }

    #[test]
    fn a_gate_judges_where_a_redirect_leads() {
        let gate: RedirectGate = std::sync::Arc::new(|url: &Url| {
            let mut url = url.clone();
            if url.host_str() == Some("b.org") {
                return Err("b.org is not allowed".to_owned());
            }
            let _ = url.set_scheme("https");
            Ok(url)
        });
        let rules = RedirectRules {
            gate: Some(&gate),
            ..STRICT
        };
        let from = hop(Method::GET, "https://a.org/x");
        let go = |to: &str| {
            let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_str(to).unwrap())]);
            read(&from, StatusCode::FOUND, &headers, &rules)
        };
        let RedirectOutcome::To { hop, stripped } = go("http://c.org/y") else {
            panic!("not followed")
        };
        assert_eq!((hop.url.as_str(), stripped), ("https://c.org/y", true));
        let refused = go("https://b.org/");
        assert!(
            matches!(&refused, RedirectOutcome::Refused(why) if why.contains("b.org is not allowed")),
            "{refused:?}"
        );
    }

    #[test]
    fn the_fragment_is_inherited() {
        let from = hop(Method::GET, "https://a.org/x#page=3");
        assert_eq!(
            next(&from, 302, "/y").0.url.as_str(),
            "https://a.org/y#page=3"
        );
        assert_eq!(next(&from, 302, "/y#z").0.url.as_str(), "https://a.org/y#z");
    }
}
