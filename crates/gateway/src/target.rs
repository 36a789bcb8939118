//! The target of a request to the gateway. Pure functions, without I/O.
//!
//! A program with an ordinary proxy setting sends the absolute form (`GET http://host/path`). For
//! https it sends CONNECT, which the gateway refuses, because the hub could not see the requests in
//! the tunnel. A program fetches https URLs by the explicit form instead:
//! `http://GATEWAY/https://host/path`. If the gateway has a fixed origin, every path belongs to
//! that origin.

use http::uri::Scheme;
use http::{Method, Uri};
use url::Url;

/// The prefix of the paths that name pages of the gateway itself, such as `/-/health`.
const OWN_PREFIX: &str = "/-/";

/// The form in which a request line names its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetForm {
    /// A whole URL or an authority, as programs send it to their proxy.
    Proxy,
    /// A path, as programs send it to a server.
    Server,
}

impl TargetForm {
    /// Returns the [`TargetForm`] of a request line.
    pub(crate) fn of(method: &Method, uri: &Uri) -> Self {
        if uri.scheme().is_some() || *method == Method::CONNECT {
            Self::Proxy
        } else {
            Self::Server
        }
    }
}

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestTarget {
    /// A URL of another server.
    Url(Box<Url>),
    /// The page that shows whether the gateway runs.
    Health,
    /// The page with the metrics of the gateway.
    Metrics,
    /// The help page of the gateway.
    Help,
    /// A tunnel, which the gateway does not support.
    Tunnel,
    /// A URL of another server, at a gateway with a single origin.
    Misdirected,
    /// A target that cannot be read, with the reason as text.
    Unknown(String),
}

/// The settings for reading targets.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetReader {
    /// The only origin that the gateway serves; `None` if clients name the origin in each request.
    pub(crate) origin: Option<Url>,
    /// `true` if `http` URLs of proxy clients are fetched by https.
    pub(crate) upgrade: bool,
}

impl TargetReader {
    /// Returns the [`RequestTarget`] of a request line.
    pub(crate) fn read(&self, method: &Method, uri: &Uri) -> RequestTarget {
        if *method == Method::CONNECT {
            return RequestTarget::Tunnel;
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let is_server = uri.scheme().is_none();
        if is_server && path.starts_with(OWN_PREFIX) {
            return own(uri.path());
        }
        match (&self.origin, uri.scheme()) {
            (Some(origin), Some(_)) if !is_of(origin, uri) => RequestTarget::Misdirected,
            (Some(origin), _) => at(origin, path),
            (None, Some(scheme)) => self.proxied(scheme, uri),
            (None, None) => explicit(path),
        }
    }

    fn proxied(&self, scheme: &Scheme, uri: &Uri) -> RequestTarget {
        if *scheme != Scheme::HTTP && *scheme != Scheme::HTTPS {
            return RequestTarget::Unknown(format!(
                "the gateway fetches http and https, not {scheme}"
            ));
        }
        let mut url = match Url::parse(&uri.to_string()) {
            Ok(url) => url,
            Err(error) => {
                return RequestTarget::Unknown(format!("the URL cannot be read: {error}"));
            }
        };
        // A URL with an explicit port is not upgraded: its server expects plain http at this port.
        if self.upgrade && url.scheme() == "http" && url.port().is_none() {
            // Both schemes are special in the URL standard, so that this does not fail.
            let _ = url.set_scheme("https");
        }
        RequestTarget::Url(Box::new(url))
    }
}

/// Returns whether a URL in absolute form belongs to the origin.
fn is_of(origin: &Url, uri: &Uri) -> bool {
    let port = |scheme: Option<&str>| if scheme == Some("https") { 443 } else { 80 };
    let asked = uri.port_u16().unwrap_or(port(uri.scheme_str()));
    let same_host = |host: &str| {
        origin
            .host_str()
            .is_some_and(|own| own.eq_ignore_ascii_case(host))
    };
    uri.host().is_some_and(same_host)
        && (origin.port_or_known_default() == Some(asked) || uri.port_u16().is_none())
}

fn own(path: &str) -> RequestTarget {
    match path {
        "/-/health" => RequestTarget::Health,
        "/-/metrics" => RequestTarget::Metrics,
        _ => RequestTarget::Unknown(format!(
            "{path} is not a page of the gateway; it has /-/health and /-/metrics"
        )),
    }
}

fn at(origin: &Url, path: &str) -> RequestTarget {
    let base = origin.as_str().trim_end_matches('/');
    // The target `*` of OPTIONS is not a path: it names the server itself.
    if !path.starts_with('/') {
        return RequestTarget::Help;
    }
    let url = match Url::parse(&format!("{base}{path}")) {
        Ok(url) => url,
        Err(error) => return RequestTarget::Unknown(format!("the path cannot be read: {error}")),
    };
    let base = origin.path().trim_end_matches('/');
    let is_below = url.origin() == origin.origin()
        && url
            .path()
            .strip_prefix(base)
            .is_some_and(|rest| rest.starts_with('/'));
    if is_below {
        RequestTarget::Url(Box::new(url))
    } else {
        RequestTarget::Unknown(format!("the path leads out of {base}/"))
    }
}

/// Reads the explicit form `/https://host/path`. Some programs join the two slashes to one, which
/// is accepted, too.
fn explicit(path: &str) -> RequestTarget {
    let Some(rest) = path.strip_prefix('/') else {
        return RequestTarget::Help;
    };
    let parts = ["http", "https"].into_iter().find_map(|scheme| {
        let rest = rest.strip_prefix(scheme)?.strip_prefix(":/")?;
        Some((scheme, rest.strip_prefix('/').unwrap_or(rest)))
    });
    let Some((scheme, rest)) = parts else {
        return if path == "/" {
            RequestTarget::Help
        } else {
            RequestTarget::Unknown(
                "the path does not begin with /http:// or /https://, and there is no --origin"
                    .to_owned(),
            )
        };
    };
    match Url::parse(&format!("{scheme}://{rest}")) {
        Ok(url) => RequestTarget::Url(Box::new(url)),
        Err(error) => {
            RequestTarget::Unknown(format!("the URL in the path cannot be read: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(targets: &TargetReader, method: &Method, line: &str) -> RequestTarget {
        targets.read(method, &line.parse().unwrap())
    }

    fn url(text: &str) -> RequestTarget {
        RequestTarget::Url(Box::new(Url::parse(text).unwrap()))
    }

    #[test]
    fn every_form_of_a_request_line_names_its_target() {
        let proxy = TargetReader::default();
        for (line, wanted) in [
            ("http://a.org/x?y=1", url("http://a.org/x?y=1")),
            ("http://a.org:8080/", url("http://a.org:8080/")),
            ("https://a.org/x", url("https://a.org/x")),
            (
                "/https://a.org/x?y=http://b",
                url("https://a.org/x?y=http://b"),
            ),
            ("/http:/a.org/x", url("http://a.org/x")),
            ("/-/health", RequestTarget::Health),
            ("/-/metrics", RequestTarget::Metrics),
            ("/-/metrics?x", RequestTarget::Metrics),
            ("/", RequestTarget::Help),
            // A page of the target that looks like one of the gateway's own.
            ("http://a.org/-/health", url("http://a.org/-/health")),
        ] {
            assert_eq!(read(&proxy, &Method::GET, line), wanted, "{line}");
        }
        for line in ["/x", "/-/other", "ftp://a.org/x", "/https://", "/https:///"] {
            let wanted = read(&proxy, &Method::GET, line);
            assert!(
                matches!(wanted, RequestTarget::Unknown(_)),
                "{line}: {wanted:?}"
            );
        }
        assert_eq!(
            read(&proxy, &Method::CONNECT, "a.org:443"),
            RequestTarget::Tunnel
        );
    }

    #[test]
    fn with_an_origin_every_path_is_one_of_it() {
        let origin = TargetReader {
            origin: Some(Url::parse("https://a.org/base/").unwrap()),
            upgrade: false,
        };
        for (line, wanted) in [
            ("/", "https://a.org/base/"),
            ("/x?y", "https://a.org/base/x?y"),
            ("//x", "https://a.org/base//x"),
            ("/https://b.org/", "https://a.org/base/https://b.org/"),
            ("http://a.org/x", "https://a.org/base/x"),
        ] {
            assert_eq!(read(&origin, &Method::GET, line), url(wanted), "{line}");
        }
        assert_eq!(
            read(&origin, &Method::GET, "/-/health"),
            RequestTarget::Health
        );
        for other in ["http://b.org/x", "http://a.org:8080/x"] {
            let wanted = read(&origin, &Method::GET, other);
            assert_eq!(wanted, RequestTarget::Misdirected, "{other}");
        }
    }

    #[test]
    fn plain_urls_are_upgraded_unless_they_name_a_port() {
        let upgrading = TargetReader {
            origin: None,
            upgrade: true,
        };
        for (line, wanted) in [
            ("http://a.org/x", "https://a.org/x"),
            ("http://a.org:80/x", "https://a.org/x"),
            ("http://a.org:8080/x", "http://a.org:8080/x"),
            ("/http://a.org/x", "http://a.org/x"),
        ] {
            assert_eq!(read(&upgrading, &Method::GET, line), url(wanted), "{line}");
        }
    }
}
