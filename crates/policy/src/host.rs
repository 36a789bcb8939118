//! Host names in their canonical spelling, the key of limits, breakers and configuration.

use std::borrow::Borrow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use url::Url;

/// A host in canonical form: lower case, punycode, no trailing dot, a non-default port included.
///
/// Examples: `api.crossref.org`, `xn--bcher-kva.example`, `127.0.0.1:8080`, `[::1]:8080`. Cheap to
/// clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host(Arc<str>);

/// The reason why a text is not a [`Host`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// A scheme other than `http` and `https`.
    #[error("'{0}' is not http or https")]
    Scheme(String),
    /// A user name or password before the host.
    #[error("the URL carries a user name or password; give credentials in the config instead")]
    Userinfo,
    /// A text that cannot be a host.
    #[error("'{text}' is not a host name: {why}")]
    Malformed {
        /// The text as given.
        text: String,
        /// The reason, in words.
        why: String,
    },
}

/// The longest text of a host and port in bytes. A name has at most 253 characters, but other
/// spellings use more bytes.
const MAX_TEXT: usize = 1_024;

impl Host {
    /// Returns the host of a [`Url`]. The default port of the scheme is omitted; any other port is
    /// part of the host.
    ///
    /// ```
    /// use docstokg_policy::host::Host;
    ///
    /// let of = |url: &str| Host::of(&url.parse().expect("a URL"));
    /// assert_eq!(of("http://Example.org:8080/a")?.as_str(), "example.org:8080");
    /// assert!(of("ftp://example.org/").is_err());
    /// # Ok::<(), docstokg_policy::host::HostError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`HostError`] for schemes other than `http` and `https`, for URLs with userinfo, and
    /// for URLs without a host.
    pub fn of(url: &Url) -> Result<Self, HostError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(HostError::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(HostError::Userinfo);
        }
        let name = url.host_str().unwrap_or_default();
        let name = name.trim_end_matches('.');
        if name.is_empty() {
            return Err(HostError::Malformed {
                text: url.as_str().to_owned(),
                why: "it is empty".to_owned(),
            });
        }
        Ok(Self(match url.port() {
            Some(port) => format!("{name}:{port}").into(),
            None => name.into(),
        }))
    }

    /// Parses a host as written in configuration: any case, Unicode, a trailing dot, a port.
    ///
    /// Both default ports are dropped, because configuration names a host without a scheme.
    ///
    /// ```
    /// use docstokg_policy::host::Host;
    ///
    /// let host = Host::parse("API.Example.org.:443")?;
    /// assert_eq!(host.as_str(), "api.example.org");
    /// assert_eq!(Host::parse("bücher.example")?.as_str(), "xn--bcher-kva.example");
    /// assert!(Host::parse("https://api.example.org/works").is_err());
    /// # Ok::<(), docstokg_policy::host::HostError>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`HostError`] if the text contains more than a host and a port.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let malformed = |why: &str| HostError::Malformed {
            text: text.to_owned(),
            why: why.to_owned(),
        };
        let trimmed = text.trim();
        if trimmed.contains('@') {
            return Err(HostError::Userinfo);
        }
        if trimmed.is_empty() {
            return Err(malformed("it is empty"));
        }
        if trimmed.len() > MAX_TEXT {
            return Err(HostError::Malformed {
                text: trimmed.chars().take(40).chain("...".chars()).collect(),
                why: "no host has so long a name".to_owned(),
            });
        }
        if trimmed.contains(['/', '?', '#', '\\']) || trimmed.chars().any(char::is_whitespace) {
            return Err(malformed(
                "give only the host, without scheme, path or spaces",
            ));
        }
        let bracketed = match trimmed.parse::<std::net::Ipv6Addr>() {
            Ok(address) => format!("[{address}]"),
            Err(_) => trimmed.to_owned(),
        };
        let url = Url::parse(&format!("https://{bracketed}/"))
            .map_err(|error| malformed(&error.to_string()))?;
        let host = Self::of(&url)?;
        Ok(match host.0.strip_suffix(":80") {
            Some(name) if !name.ends_with(':') => Self(name.into()),
            _ => host,
        })
    }

    /// Returns the canonical text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the canonical text as a shared pointer, without a copy.
    #[must_use]
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// Returns the name without its port and brackets.
    #[must_use]
    pub fn name(&self) -> &str {
        let text = &*self.0;
        if let Some(rest) = text.strip_prefix('[') {
            return rest.split_once(']').map_or(rest, |(name, _)| name);
        }
        text.split_once(':').map_or(text, |(name, _)| name)
    }

    /// Returns the address if the host is an IP literal.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        self.name().parse().ok()
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Host({})", self.0)
    }
}

impl Borrow<str> for Host {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Returns whether an address is unreachable from the public internet. Such addresses are:
///
/// - loopback, private, link-local, shared, unique-local, unspecified, multicast and reserved ones,
/// - IPv6 forms that embed such an IPv4 address.
///
/// ```
/// use docstokg_policy::host::is_internal;
///
/// assert!(is_internal("10.0.0.1".parse()?));
/// assert!(is_internal("::ffff:127.0.0.1".parse()?));
/// assert!(!is_internal("93.184.215.14".parse()?));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[must_use]
pub fn is_internal(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            v4.is_loopback()
                || v4.is_private()
                || v4.is_link_local()
                || v4.is_multicast()
                || a == 0
                || (a == 100 && (64..128).contains(&b))
                || (a == 192 && b == 0 && (c == 0 || c == 2))
                || (a == 198 && (b == 18 || b == 19))
                || (a == 198 && b == 51 && c == 100)
                || (a == 203 && b == 0 && c == 113)
                || (a == 192 && b == 88 && c == 99)
                || a >= 240
        }
        IpAddr::V6(v6) => {
            let segments = v6.segments();
            if embedded_v4(segments)
                .into_iter()
                .flatten()
                .any(|v4| is_internal(IpAddr::V4(v4)))
            {
                return true;
            }
            v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_multicast()
                || segments[0] & 0xfe00 == 0xfc00
                || segments[0] & 0xffc0 == 0xfe80
                || segments[0] & 0xffc0 == 0xfec0
                // Discard, local-use NAT64, documentation, benchmarking, ORCHID.
                || segments[..4] == [0x100, 0, 0, 0]
                || segments[..3] == [0x64, 0xff9b, 1]
                || segments[..2] == [0x2001, 0xdb8]
                || (segments[0] == 0x3fff && segments[1] < 0x1000)
                || segments[..3] == [0x2001, 2, 0]
                || (segments[0] == 0x2001 && (0x10..0x30).contains(&segments[1]))
                // Public addresses have no need of a mapped or compatible form.
                || segments[..6] == [0, 0, 0, 0, 0, 0]
        }
    }
}

/// Returns the IPv4 addresses that an IPv6 address embeds:
///
/// - mapped (`::ffff:a.b.c.d`), compatible (`::a.b.c.d`) and translated (`::ffff:0:a.b.c.d`) forms,
/// - NAT64 (`64:ff9b::/96`) and 6to4 (`2002::/16`),
/// - Teredo (`2001::/32`), with the addresses of server and client.
fn embedded_v4(segments: [u16; 8]) -> [Option<Ipv4Addr>; 2] {
    let join = |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match segments {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => [join(high, low), None],
        [0x2001, 0, high, low, _, _, hidden_high, hidden_low] => {
            [join(high, low), join(!hidden_high, !hidden_low)]
        }
        _ => [None, None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<String, HostError> {
        Host::of(&Url::parse(text).expect("a URL")).map(|host| host.to_string())
    }

    #[test]
    fn host_parse_gives_one_spelling_per_host() {
        for text in [
            "https://API.Crossref.ORG/x",
            "https://api.crossref.org.:443/",
            "http://api.crossref.org:80/",
        ] {
            assert_eq!(of(text).unwrap(), "api.crossref.org", "{text}");
        }
        assert_eq!(
            of("http://Bücher.example/").unwrap(),
            "xn--bcher-kva.example"
        );
        assert_eq!(of("http://127.1:8080/").unwrap(), "127.0.0.1:8080");
        assert_eq!(of("http://[0:0::1]:9/").unwrap(), "[::1]:9");
        assert_eq!(of("http://example.org:443/").unwrap(), "example.org:443");
    }

    #[test]
    fn userinfo_and_other_schemes_are_refused() {
        assert_eq!(
            of("http://me:secret@example.org/"),
            Err(HostError::Userinfo)
        );
        assert_eq!(
            of("ftp://example.org/"),
            Err(HostError::Scheme("ftp".to_owned()))
        );
        assert!(!HostError::Userinfo.to_string().contains("secret"));
    }

    #[test]
    fn hosts_are_read_as_people_write_them() {
        for (text, canonical) in [
            ("API.crossref.org.", "api.crossref.org"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("example.org:443", "example.org"),
            ("example.org:80", "example.org"),
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("::1", "[::1]"),
            ("[::1]:80", "[::1]"),
        ] {
            assert_eq!(Host::parse(text).unwrap().as_str(), canonical, "{text}");
        }
        for text in [
            "",
            "a b",
            "https://example.org",
            "me@example.org",
            "exa mple",
            "a/b",
            "example.org:99999",
        ] {
            assert!(Host::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_name_and_address_come_without_port() {
        let name = |text: &str| Host::parse(text).unwrap().name().to_owned();
        assert_eq!(name("example.org:81"), "example.org");
        assert_eq!(name("[::1]:81"), "::1");
        assert_eq!(
            Host::parse("[::1]:81").unwrap().ip(),
            Some("::1".parse().unwrap())
        );
        assert_eq!(Host::parse("example.org").unwrap().ip(), None);
    }

    #[test]
    fn internal_addresses_are_known_in_every_disguise() {
        for text in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "fec0::1",
            "::7f00:1",
            "::808:808",
            "::ffff:0:a00:1",
            "64:ff9b:1::808:808",
            "2001:0:a00:1::",
            "2001:0:808:808::80ff:fffe",
            "2001:db8::1",
            "100::1",
            "3fff::1",
            "192.0.2.1",
            "198.51.100.7",
            "203.0.113.9",
        ] {
            assert!(is_internal(text.parse().unwrap()), "{text}");
        }
        for text in [
            "8.8.8.8",
            "100.63.0.1",
            "172.32.0.1",
            "192.1.0.1",
            "2606:4700::1",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
            "2001:4860:4860::8888",
        ] {
            assert!(!is_internal(text.parse().unwrap()), "{text}");
        }
    }
}
