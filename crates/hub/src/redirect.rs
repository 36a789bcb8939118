//! Where a redirect leads, and what may go along. Pure.

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use url::Url;

use crate::redact::is_credential;
use crate::request::RedirectGate;

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

    fn turn_into_get(&mut self) {
        self.method = Method::GET;
        self.body = Bytes::new();
        for name in [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING] {
            self.headers.remove(name);
        }
    }

    /// Removes every header that carries credentials, and returns whether there was one.
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

/// What decides which redirects are followed, and what goes along.
pub(crate) struct RedirectRules<'a> {
    /// Headers of the request that carry credentials, beside those that are known.
    pub(crate) secret_headers: &'a [HeaderName],
    /// Whether a redirect may lead from https to http.
    pub(crate) allow_downgrade: bool,
    /// What the caller says about where a redirect leads.
    pub(crate) gate: Option<&'a RedirectGate>,
    /// Whether a host is known to serve no https.
    pub(crate) is_plain: &'a dyn Fn(&Url) -> bool,
}

/// What an answer asks for.
#[derive(Debug)]
pub(crate) enum RedirectOutcome {
    /// It is the final answer.
    No,
    /// It leads on.
    To {
        /// The next hop.
        hop: Box<Hop>,
        /// Whether credentials were left behind.
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
/// and 308 keep method and body. Authorization, cookies and other credentials stay behind when the
/// origin changes.
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

/// Returns where a redirect leads, and the URL as it was stated where https is tried first.
///
/// # Errors
/// It leads nowhere that is followed; the text says why.
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
        // A third of registered URLs begin with http, and nothing secret goes along: https first,
        // then as registered.
        if url.port().is_none() && !(rules.is_plain)(&url) {
            or_else = Some(url.clone());
            let _ = url.set_scheme("https");
        }
    }
    // RFC 9110 section 10.2.2: a fragment is inherited where the target has none.
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

/// A hop that was made: its URL, and the cookies that it carried.
pub(crate) type VisitedHop = (Url, Option<HeaderValue>);

/// Refuses chains that lead nowhere. The same URL again is no circle while its cookies have
/// changed.
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

/// Returns whether an answer to a tentative https request says that the site is not served there.
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
