//! Where a redirect leads, and what may go along. Pure.

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, LOCATION,
    PROXY_AUTHORIZATION,
};
use http::{HeaderMap, HeaderName, Method, StatusCode};
use url::Url;

/// Headers that carry keys of known services; never sent to another origin.
const KEY_HEADERS: [&str; 9] = [
    "api-key",
    "api_key",
    "crossref-plus-api-token",
    "wiley-tdm-client-token",
    "x-api-key",
    "x-apikey",
    "x-auth-token",
    "x-els-apikey",
    "x-els-insttoken",
];

/// What is sent on a hop.
#[derive(Clone, Debug)]
pub(crate) struct Hop {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Where to go instead if this one cannot be reached: the URL as it was stated, before `https`
    /// was tried.
    pub(crate) or_else: Option<Url>,
}

impl Hop {
    /// Returns the hop as it was stated, before `https` was tried.
    pub(crate) fn into_stated(self) -> Self {
        let url = self.or_else.clone().unwrap_or_else(|| self.url.clone());
        Self {
            url,
            or_else: None,
            ..self
        }
    }
}

/// What an answer asks for.
#[derive(Debug)]
pub(crate) enum Redirected {
    /// It is the final answer.
    No,
    /// It leads on.
    To {
        /// The next hop.
        hop: Box<Hop>,
        /// Whether keys were left behind.
        stripped: bool,
    },
    /// It leads nowhere we go.
    Refused(String),
}

/// Hosts that resolve DOIs and handles. They carry no credentials, and lead to what publishers
/// registered long ago.
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
/// 301 and 302 turn POST into GET as every client does, 303 turns everything but HEAD into GET, 307
/// and 308 keep method and body. Authorization, cookies and key headers stay behind when the origin
/// changes.
pub(crate) fn read(
    hop: &Hop,
    status: StatusCode,
    headers: &HeaderMap,
    secrets: &[HeaderName],
    allow_downgrade: bool,
    is_plain: impl Fn(&Url) -> bool,
) -> Redirected {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Redirected::No;
    }
    let Some(location) = headers.get(LOCATION) else {
        return Redirected::No;
    };
    let location = String::from_utf8_lossy(location.as_bytes());
    let mut url = match hop.url.join(location.trim()) {
        Ok(url) => url,
        Err(error) => {
            return Redirected::Refused(format!(
                "it redirects to something that is no URL ({error})"
            ));
        }
    };
    if !matches!(url.scheme(), "http" | "https") {
        return Redirected::Refused(format!("it redirects to a {} URL", url.scheme()));
    }
    let mut or_else = None;
    if hop.url.scheme() == "https" && url.scheme() == "http" && !allow_downgrade {
        if !is_link_resolver(&hop.url) {
            return Redirected::Refused(
                "it redirects from https to http, which is not allowed (transport.allow_downgrade)"
                    .to_owned(),
            );
        }
        // A third of registered URLs begin with http, and nothing secret goes along: https first,
        // then as registered.
        if url.port().is_none() && !is_plain(&url) {
            or_else = Some(url.clone());
            let _ = url.set_scheme("https");
        }
    }
    // RFC 9110 section 10.2.2: a fragment is inherited where the target has none.
    if url.fragment().is_none() {
        url.set_fragment(hop.url.fragment());
    }
    let mut next = Hop {
        method: hop.method.clone(),
        url,
        headers: hop.headers.clone(),
        body: hop.body.clone(),
        or_else,
    };
    let becomes_get = match status.as_u16() {
        303 => hop.method != Method::HEAD && hop.method != Method::GET,
        301 | 302 => hop.method == Method::POST,
        _ => false,
    };
    if becomes_get {
        next.method = Method::GET;
        next.body = Bytes::new();
        for name in [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING] {
            next.headers.remove(name);
        }
    }
    let mut stripped = false;
    if next.url.origin() != hop.url.origin() {
        let known = [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION].into_iter();
        let keys = KEY_HEADERS.into_iter().map(HeaderName::from_static);
        for name in known.chain(keys).chain(secrets.iter().cloned()) {
            stripped |= next.headers.remove(name).is_some();
        }
    }
    Redirected::To {
        hop: Box::new(next),
        stripped,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn hop(method: Method, url: &str) -> Hop {
        let mut headers = HeaderMap::new();
        for name in [
            "authorization",
            "cookie",
            "x-els-apikey",
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

    fn go(from: &Hop, status: u16, to: &str) -> Redirected {
        let headers = HeaderMap::from_iter([(LOCATION, HeaderValue::from_str(to).unwrap())]);
        read(
            from,
            StatusCode::from_u16(status).unwrap(),
            &headers,
            &[HeaderName::from_static("x-mine")],
            false,
            |_| false,
        )
    }

    fn next(from: &Hop, status: u16, to: &str) -> (Hop, bool) {
        match go(from, status, to) {
            Redirected::To { hop, stripped } => (*hop, stripped),
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
    fn keys_stay_behind_when_the_origin_changes() {
        let from = hop(Method::GET, "https://a.org/x");
        for (to, kept) in [
            ("/y", true),
            ("https://a.org/y", true),
            ("https://b.org/", false),
            ("https://a.org:8443/", false),
            ("//c.a.org/", false),
        ] {
            let (hop, stripped) = next(&from, 302, to);
            for name in ["authorization", "cookie", "x-els-apikey", "x-mine"] {
                assert_eq!(hop.headers.contains_key(name), kept, "{to} {name}");
            }
            assert_eq!(stripped, !kept);
            assert!(hop.headers.contains_key("accept"));
        }
    }

    #[test]
    fn some_redirects_are_not_followed() {
        let from = hop(Method::GET, "https://a.org/x");
        assert!(
            matches!(go(&from, 302, "http://a.org/"), Redirected::Refused(why) if why.contains("https to http"))
        );
        assert!(matches!(
            go(&from, 302, "file:///etc/passwd"),
            Redirected::Refused(_)
        ));
        assert!(matches!(go(&from, 302, "http://["), Redirected::Refused(_)));
        assert!(matches!(go(&from, 304, "/y"), Redirected::No));
        assert!(matches!(
            read(
                &from,
                StatusCode::FOUND,
                &HeaderMap::new(),
                &[],
                false,
                |_| false
            ),
            Redirected::No
        ));
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

    #[test]
    fn the_key_headers_are_sorted_and_lower_case() {
        assert!(
            KEY_HEADERS.is_sorted()
                && KEY_HEADERS
                    .iter()
                    .all(|name| *name == name.to_ascii_lowercase())
        );
    }
}
