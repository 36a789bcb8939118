//! Access control of the gateway. Pure functions, without I/O.
//!
//! A gateway on loopback serves the programs of its machine. Every web page in a browser on that
//! machine can also send requests to it. Two kinds of requests by web pages are refused:
//!
//! - requests from a page of another site, according to `Origin` and `Sec-Fetch-Site`;
//! - requests whose `Host` is not a name of the gateway. Their page belongs to a site whose name
//!   resolves to 127.0.0.1.
//!
//! On other addresses than loopback, clients need a token.

use std::net::{IpAddr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{HOST, ORIGIN, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest, Sha256};

use crate::target::TargetForm;

/// The header field in which clients without a proxy setting send the token.
pub(crate) const TOKEN: HeaderName = HeaderName::from_static("docstokg-token");

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The reason why [`AccessRules`] refuse a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessDenial {
    /// The request does not have the token.
    Token,
    /// A page of another site sent the request.
    OtherSite,
    /// The `Host` field does not name the gateway.
    Name,
}

/// The hash of a token. Comparing hashes takes the same time for every wrong token.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct TokenHash([u8; 32]);

impl TokenHash {
    pub(crate) fn new(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }
}

/// The rules that decide whether a request may use the gateway.
pub(crate) struct AccessRules {
    /// The address on which the gateway listens.
    pub(crate) address: SocketAddr,
    /// Further names of the gateway, with their port unless the port is 80.
    pub(crate) names: Vec<String>,
    /// The token that clients have to send, if any.
    pub(crate) token: Option<TokenHash>,
}

impl AccessRules {
    /// Checks whether a request may use the gateway. In the form [`TargetForm::Server`], a web page
    /// may have sent it, so that its page is checked, too.
    ///
    /// # Errors
    /// Returns an [`AccessDenial`] for a request of a foreign page, or without the token.
    pub(crate) fn check(&self, form: TargetForm, headers: &HeaderMap) -> Result<(), AccessDenial> {
        if form == TargetForm::Server {
            self.check_page(headers)?;
        }
        match &self.token {
            Some(token) if !presented(headers).any(|text| TokenHash::new(&text) == *token) => {
                Err(AccessDenial::Token)
            }
            _ => Ok(()),
        }
    }

    /// Checks that no page of another site sent the request. The check is needed for
    /// [`TargetForm::Server`] only: a page cannot send requests in the form that programs send to
    /// their proxy.
    ///
    /// # Errors
    /// Returns [`AccessDenial::Name`] or [`AccessDenial::OtherSite`].
    pub(crate) fn check_page(&self, headers: &HeaderMap) -> Result<(), AccessDenial> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().ok(),
            _ => None,
        };
        let has_names = self.address.ip().is_loopback() || !self.names.is_empty();
        if has_names && !host.is_some_and(|host| self.may_be_named(host)) {
            return Err(AccessDenial::Name);
        }
        let site = headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
        if site.is_some_and(|site| site != b"none" && site != b"same-origin") {
            return Err(AccessDenial::OtherSite);
        }
        let is_own_origin = |origin: &HeaderValue| {
            let origin = origin.to_str().ok();
            let named = origin.and_then(|origin| origin.strip_prefix("http://"));
            named.is_some() && named == host
        };
        if headers.get_all(ORIGIN).iter().all(is_own_origin) {
            Ok(())
        } else {
            Err(AccessDenial::OtherSite)
        }
    }

    /// Returns whether `host`, with its port, is a name of the gateway.
    pub(crate) fn is_name(&self, host: &str) -> bool {
        if self.names.iter().any(|own| own.eq_ignore_ascii_case(host)) {
            return true;
        }
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (name, port.parse().ok()),
            _ => (host, Some(80)),
        };
        let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
        let is_own = |address: IpAddr| address.is_loopback() || address == self.address.ip();
        let is_local = name.eq_ignore_ascii_case("localhost") || address.is_ok_and(is_own);
        is_local && port == Some(self.address.port())
    }

    /// Returns whether a `Host` field may name the gateway. If the gateway listens on an address
    /// that other machines reach, any IP address is accepted: an attacker's site can make only
    /// names resolve to the gateway.
    fn may_be_named(&self, host: &str) -> bool {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        self.is_name(host) || (is_address && !self.address.ip().is_loopback())
    }
}

/// Returns all tokens that a request presents, valid or not.
fn presented(headers: &HeaderMap) -> impl Iterator<Item = String> {
    let own = headers.get_all(TOKEN).iter();
    let own = own.filter_map(|value| value.to_str().ok().map(str::to_owned));
    let proxy = headers.get_all(PROXY_AUTHORIZATION).iter();
    own.chain(proxy.filter_map(|value| credential(value.to_str().ok()?)))
}

/// Reads `Bearer TOKEN`, or `Basic` with the token as the password, as proxy settings send it.
fn credential(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.trim().to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(rest.trim()).ok()?;
    let text = String::from_utf8(decoded).ok()?;
    text.split_once(':')
        .map(|(_, password)| password.to_owned())
}

/// Removes the fields that only the gateway may see.
pub(crate) fn strip(headers: &mut HeaderMap) {
    headers.remove(TOKEN);
    headers.remove(PROXY_AUTHORIZATION);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    fn access(token: Option<&str>) -> AccessRules {
        AccessRules {
            address: "127.0.0.1:8100".parse().unwrap(),
            names: vec!["papers.example:8100".to_owned()],
            token: token.map(TokenHash::new),
        }
    }

    #[test]
    fn only_requests_that_name_the_gateway_are_served_on_loopback() {
        let access = access(None);
        let judge = |host: &str| access.check(TargetForm::Server, &headers(&[("host", host)]));
        for host in [
            "127.0.0.1:8100",
            "localhost:8100",
            "LOCALHOST:8100",
            "[::1]:8100",
            "papers.example:8100",
        ] {
            assert_eq!(judge(host), Ok(()), "{host}");
        }
        for host in [
            "evil.example:8100",
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost.evil.example:8100",
            "papers.example",
            "",
            "10.0.0.1:8100",
        ] {
            assert_eq!(judge(host), Err(AccessDenial::Name), "{host}");
        }
        let none = access.check(TargetForm::Server, &headers(&[]));
        assert_eq!(none, Err(AccessDenial::Name));
        let twice = headers(&[("host", "127.0.0.1:8100"), ("host", "evil.example:8100")]);
        assert_eq!(
            access.check(TargetForm::Server, &twice),
            Err(AccessDenial::Name)
        );
        // In the form for proxies, `Host` names the target instead of the gateway.
        let proxied = headers(&[("host", "a.org"), ("sec-fetch-site", "cross-site")]);
        assert_eq!(access.check(TargetForm::Proxy, &proxied), Ok(()));
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        let access = access(None);
        let judge = |name: &str, value: &str| {
            let sent = headers(&[("host", "127.0.0.1:8100"), (name, value)]);
            access.check(TargetForm::Server, &sent)
        };
        for (name, value) in [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("origin", "https://evil.example"),
            ("origin", "http://127.0.0.1:9999"),
            ("origin", "null"),
        ] {
            assert_eq!(
                judge(name, value),
                Err(AccessDenial::OtherSite),
                "{name}: {value}"
            );
        }
        for (name, value) in [
            ("sec-fetch-site", "none"),
            ("sec-fetch-site", "same-origin"),
            ("origin", "http://127.0.0.1:8100"),
        ] {
            assert_eq!(judge(name, value), Ok(()), "{name}: {value}");
        }
    }

    #[test]
    fn the_token_is_taken_from_every_field_that_clients_have_for_it() {
        let access = access(Some("s3cret"));
        let judge = |name: &str, value: &str| {
            let sent = headers(&[("host", "127.0.0.1:8100"), (name, value)]);
            access.check(TargetForm::Server, &sent)
        };
        for (name, value) in [
            ("docstokg-token", "s3cret"),
            ("proxy-authorization", "Bearer s3cret"),
            // The credentials are `any:s3cret`.
            ("proxy-authorization", "basic YW55OnMzY3JldA=="),
        ] {
            assert_eq!(judge(name, value), Ok(()), "{name}: {value}");
        }
        for (name, value) in [
            ("docstokg-token", "s3cre"),
            ("docstokg-token", ""),
            ("proxy-authorization", "Bearer"),
            ("proxy-authorization", "Basic !!!"),
            // The credentials are `s3cret:any`, with the token in the wrong place.
            ("proxy-authorization", "Basic czNjcmV0OmFueQ=="),
            ("authorization", "Bearer s3cret"),
        ] {
            assert_eq!(
                judge(name, value),
                Err(AccessDenial::Token),
                "{name}: {value}"
            );
        }
    }
}
