//! Checks URLs before they are fetched: they must use https by default, have no credentials, and be
//! on the list of allowed hosts if there is a list.
//!
//! The check applies to the first URL of a request and to every redirect. Host names that imitate
//! other names are refused here as well. Addresses of private networks behind a host name are
//! refused by the hub, when it connects.

use std::sync::Arc;

use docstokg_hub::RedirectGate;
use docstokg_policy::host::Host;
use url::Url;

/// The rules that a URL must satisfy to be fetched.
#[derive(Clone, Debug, Default)]
pub struct UrlGate {
    allowed: Vec<HostPattern>,
    plain: Vec<HostPattern>,
}

/// A pattern that matches a host (with or without a port), every host below a domain
/// (`*.example.org`), or every host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    /// The host name; `None` for every host.
    name: Option<String>,
    is_below: bool,
    port: Option<u16>,
}

/// The reason why [`UrlGate::check`] refuses a URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// The scheme is not http or https.
    #[error("{url} is a {scheme}: address, and only https is fetched")]
    Scheme {
        /// The refused URL.
        url: String,
        /// The scheme of the URL.
        scheme: String,
    },
    /// The URL has no host.
    #[error("'{0}' names no host")]
    NoHost(String),
    /// The URL has a user name or password.
    #[error("the URL at {0} carries a user name or password, which is not sent")]
    Credentials(String),
    /// The host is not on the list.
    #[error("{0} is not in allowed_hosts; add it there to fetch from it")]
    NotAllowed(String),
    /// The URL has a port that neither list of hosts allows.
    #[error("{0} has a port of its own; add it to allowed_hosts as HOST:PORT to fetch from it")]
    Port(String),
    /// The URL uses plain http on a port where https cannot be tried.
    #[error(
        "{0} is plain http and has no https address to try; add it to plain_http_hosts to fetch \
         from it without encryption"
    )]
    Plain(String),
    /// The URL names an address of a private network.
    #[error("{0} is an address of a private network; add it to allowed_hosts to fetch from it")]
    Internal(String),
    /// The host name mixes letters of several alphabets, so that it can look like another name.
    #[error("the host name {0} mixes letters of several alphabets, so that it looks like another")]
    MixedAlphabets(String),
}

impl HostPattern {
    /// Reads a pattern: `HOST`, `HOST:PORT`, `*.DOMAIN` or `*`.
    ///
    /// # Errors
    /// A sentence if the text is not in one of these forms.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "*" {
            return Ok(Self {
                name: None,
                is_below: true,
                port: None,
            });
        }
        let (rest, is_below) = match text.strip_prefix("*.") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let host = Host::parse(rest).map_err(|why| format!("'{text}' is not a host: {why}"))?;
        let port = host
            .as_str()
            .strip_prefix(host.name())
            .and_then(|port| port.strip_prefix(':'))
            .and_then(|port| port.parse().ok());
        Ok(Self {
            name: Some(host.name().to_owned()),
            is_below,
            port,
        })
    }

    fn covers(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else {
            return false;
        };
        let named = self.name.as_ref().is_none_or(|name| {
            !self.is_below && host == name
                || self.is_below
                    && host
                        .strip_suffix(name.as_str())
                        .is_some_and(|rest| rest.ends_with('.'))
        });
        named
            && self
                .port
                .is_none_or(|port| url.port_or_known_default() == Some(port))
    }

    fn names_port(&self, url: &Url) -> bool {
        self.port.is_some() && self.covers(url)
    }
}

impl UrlGate {
    /// Creates a gate. If `allowed` is empty, every host is allowed. Plain http is allowed only for
    /// the hosts of `plain`.
    #[must_use]
    pub fn new(allowed: Vec<HostPattern>, plain: Vec<HostPattern>) -> Self {
        Self { allowed, plain }
    }

    /// Returns the patterns of hosts for which plain http is allowed.
    #[must_use]
    pub fn plain(&self) -> &[HostPattern] {
        &self.plain
    }

    /// Returns the URL to fetch: http becomes https, unless plain http is allowed for its host.
    ///
    /// # Errors
    /// [`GateError`] if the URL must not be fetched; the message says why and what to do.
    pub fn check(&self, url: &Url) -> Result<Url, GateError> {
        let shown = || docstokg_hub::redact(url);
        if !matches!(url.scheme(), "http" | "https") {
            return Err(GateError::Scheme {
                scheme: url.scheme().to_owned(),
                url: shown(),
            });
        }
        let host = url.host_str().ok_or_else(|| GateError::NoHost(shown()))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(GateError::Credentials(host.to_owned()));
        }
        if has_mixed_alphabets(host) {
            return Err(GateError::MixedAlphabets(host.to_owned()));
        }
        let lists = || self.allowed.iter().chain(&self.plain);
        if !self.allowed.is_empty() && !lists().any(|pattern| pattern.covers(url)) {
            return Err(GateError::NotAllowed(host.to_owned()));
        }
        if is_internal(url) && !lists().any(|pattern| pattern.name.is_some() && pattern.covers(url))
        {
            return Err(GateError::Internal(host.to_owned()));
        }
        let is_plain_allowed = self.plain.iter().any(|pattern| pattern.covers(url));
        if let Some(port) = url.port()
            && !lists().any(|pattern| pattern.names_port(url))
            && !is_plain_allowed
        {
            return Err(GateError::Port(format!("{host}:{port}")));
        }
        let mut url = url.clone();
        if url.scheme() == "http" && !is_plain_allowed {
            if url.port().is_some() {
                return Err(GateError::Plain(shown_host(&url)));
            }
            let _ = url.set_scheme("https");
        }
        Ok(url)
    }

    /// Returns a [`RedirectGate`] that applies the same check to redirects.
    #[must_use]
    pub fn for_redirects(self: &Arc<Self>) -> RedirectGate {
        let gate = Arc::clone(self);
        Arc::new(move |url: &Url| gate.check(url).map_err(|error| error.to_string()))
    }
}

/// Returns true if the host of a URL is an IP address of a private network. The hub checks the
/// addresses of host names.
fn is_internal(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => docstokg_policy::host::is_internal(address.into()),
        Some(url::Host::Ipv6(address)) => docstokg_policy::host::is_internal(address.into()),
        Some(url::Host::Domain(_)) | None => false,
    }
}

fn shown_host(url: &Url) -> String {
    match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (host, _) => host.unwrap_or_default().to_owned(),
    }
}

/// Returns true if a label of a host name mixes Latin letters with letters of an alphabet that has
/// similar letters.
fn has_mixed_alphabets(host: &str) -> bool {
    let (unicode, _) = idna_to_unicode(host);
    unicode.split('.').any(|label| {
        let has = |test: fn(char) -> bool| label.chars().any(test);
        let latin =
            has(|letter| letter.is_ascii_alphabetic() || ('\u{c0}'..='\u{24f}').contains(&letter));
        let greek = has(|letter| ('\u{370}'..='\u{3ff}').contains(&letter));
        let cyrillic = has(|letter| ('\u{400}'..='\u{52f}').contains(&letter));
        usize::from(latin) + usize::from(greek) + usize::from(cyrillic) > 1
    })
}

fn idna_to_unicode(host: &str) -> (String, Result<(), idna::Errors>) {
    idna::domain_to_unicode(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(allowed: &[&str], plain: &[&str]) -> UrlGate {
        let read = |list: &[&str]| {
            list.iter()
                .map(|text| HostPattern::parse(text).unwrap())
                .collect()
        };
        UrlGate::new(read(allowed), read(plain))
    }

    fn check(gate: &UrlGate, url: &str) -> Result<String, String> {
        let url = Url::parse(url).unwrap();
        gate.check(&url)
            .map(Into::into)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn http_becomes_https_or_is_reported() {
        let open = gate(&[], &[]);
        assert_eq!(check(&open, "http://a.org/x").unwrap(), "https://a.org/x");
        assert_eq!(check(&open, "https://a.org/x").unwrap(), "https://a.org/x");
        for (url, wanted) in [
            ("ftp://a.org/x", "is a ftp: address"),
            ("file:///etc/passwd", "is a file: address"),
            (
                "https://user:secret@a.org/",
                "carries a user name or password",
            ),
            ("https://a.org:8443/", "has a port of its own"),
            ("https://127.0.0.1/", "address of a private network"),
            ("https://[::1]/", "address of a private network"),
            (
                "https://xn--pple-43d.com/",
                "mixes letters of several alphabets",
            ),
        ] {
            let error = check(&open, url).unwrap_err();
            assert!(error.contains(wanted), "{url}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
        // A name whose letters are all of one alphabet is not an imitation.
        check(&open, "https://xn--80ak6aa92e.com/").unwrap();
    }

    #[test]
    fn an_allow_list_names_hosts_domains_and_ports() {
        let listed = gate(
            &["a.org", "*.b.org", "c.org:8443", "127.0.0.1:80"],
            &["plain.org:8080"],
        );
        for url in [
            "https://a.org/",
            "http://a.org/",
            "https://x.b.org/",
            "https://c.org:8443/",
            "http://plain.org:8080/",
        ] {
            check(&listed, url).unwrap_or_else(|error| panic!("{url}: {error}"));
        }
        assert_eq!(
            check(&listed, "http://plain.org:8080/x").unwrap(),
            "http://plain.org:8080/x"
        );
        for url in [
            "https://b.org.evil.org/",
            "https://b.org/",
            "https://c.org/",
            "https://d.org/",
            "https://xb.org/",
        ] {
            let error = check(&listed, url).unwrap_err();
            assert!(error.contains("is not in allowed_hosts"), "{url}: {error}");
        }
        assert!(HostPattern::parse("a b").is_err());
        check(&gate(&["*"], &[]), "https://any.org/").unwrap();
    }

    #[test]
    fn plain_http_at_a_port_is_reported() {
        let gate = gate(&["a.org:8080"], &[]);
        let error = check(&gate, "http://a.org:8080/").unwrap_err();
        assert!(error.contains("plain_http_hosts"), "{error}");
    }
}
