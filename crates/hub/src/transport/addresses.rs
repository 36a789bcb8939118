//! Name resolution, with `--connect-to` mappings and a guard against internal addresses.
//!
//! The guard checks the addresses to which connections are made, so that a name that resolves
//! differently the second time does not get past it. A literal address in a URL never reaches a
//! resolver, so [`internal_literal`] checks it.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use docstokg_policy::host::{Host, is_internal};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::Url;

use super::AddressReach;

/// A mapping of one host and port to an address: `HOST:PORT=ADDR:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectTo {
    /// The host in the URLs of requests, without its port.
    pub name: String,
    /// The port in the URLs of requests.
    pub port: u16,
    /// The address to which connections are made instead.
    pub address: SocketAddr,
}

impl ConnectTo {
    /// Returns whether the mapping applies to requests for `url`.
    #[must_use]
    pub fn covers(&self, url: &Url) -> bool {
        Host::of(url).is_ok_and(|host| host.name() == self.name)
            && url.port_or_known_default() == Some(self.port)
    }
}

impl FromStr for ConnectTo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("'{text}' is not HOST:PORT=ADDR:PORT: {why}");
        let (from, to) = text
            .split_once('=')
            .ok_or_else(|| wrong("there is no '='"))?;
        let (name, port) = from
            .rsplit_once(':')
            .ok_or_else(|| wrong("the port of the host is missing"))?;
        let port = port
            .parse()
            .map_err(|_| wrong("the port of the host is not a number up to 65535"))?;
        let host = Host::parse(name).map_err(|error| wrong(&error.to_string()))?;
        let address = to
            .parse()
            .map_err(|_| wrong("what follows '=' is not an IP address and a port"))?;
        Ok(Self {
            name: host.name().to_owned(),
            port,
            address,
        })
    }
}

/// Returns the internal address that a URL contains literally; `None` if it contains none.
pub(super) fn internal_literal(url: &Url) -> Option<IpAddr> {
    let address = match url.host()? {
        url::Host::Ipv4(address) => IpAddr::V4(address),
        url::Host::Ipv6(address) => IpAddr::V6(address),
        url::Host::Domain(_) => return None,
    };
    is_internal(address).then_some(address)
}

/// The error of a name that resolves only to internal addresses.
#[derive(Debug, thiserror::Error)]
#[error("{name} leads to the internal address {address}")]
pub(super) struct InternalAddress {
    pub(super) name: String,
    pub(super) address: IpAddr,
}

/// The error of a name without an address.
#[derive(Debug, thiserror::Error)]
#[error("{name} has no address: {why}")]
pub(super) struct NoAddress {
    name: String,
    why: String,
}

/// The error of an unreachable name server: this machine has no network.
#[derive(Debug, thiserror::Error)]
#[error("name resolution failed: no server could be asked for the address of {name}")]
pub(super) struct ResolverUnreachable {
    name: String,
}

/// Returns whether the name server could not be reached (`EAI_AGAIN`), in contrast to a name that
/// does not exist.
fn is_resolver_unreachable(error: &std::io::Error) -> bool {
    let text = error.to_string();
    ["Temporary failure in name resolution", "Try again"]
        .iter()
        .any(|mark| text.contains(mark))
}

/// A resolver that queries the system's resolver, and drops the addresses that must not be reached.
pub(super) struct GuardedResolver {
    reach: AddressReach,
    /// The hosts of the proxies in environment variables, which may be internal because the user
    /// chose them.
    exempt: Arc<HashSet<String>>,
}

impl GuardedResolver {
    pub(super) fn new(reach: AddressReach, exempt: Arc<HashSet<String>>) -> Self {
        Self { reach, exempt }
    }
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        let guarded = self.reach == AddressReach::PublicOnly && !self.exempt.contains(&name);
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0))
                .await
                .map(Vec::from_iter);
            let found: Vec<SocketAddr> = match found {
                Ok(found) => found,
                // The process has too many open files, so the name is not the cause.
                Err(error) if super::fault::is_lack_of_files(&error) => return Err(error.into()),
                Err(error) if is_resolver_unreachable(&error) => {
                    return Err(ResolverUnreachable { name }.into());
                }
                Err(error) => {
                    return Err(NoAddress {
                        name,
                        why: error.to_string(),
                    }
                    .into());
                }
            };
            let (internal, public): (Vec<_>, Vec<_>) = found
                .into_iter()
                .partition(|address| guarded && is_internal(address.ip()));
            match (public.is_empty(), internal.first()) {
                (true, Some(address)) => Err(InternalAddress {
                    name,
                    address: address.ip(),
                }
                .into()),
                (true, None) => Err(NoAddress {
                    name,
                    why: "the resolver returned none".to_owned(),
                }
                .into()),
                (false, _) => Ok(Box::new(public.into_iter()) as Addrs),
            }
        })
    }
}

/// A resolver that resolves every name to one address.
pub(super) struct FixedResolver(pub(super) SocketAddr);

impl Resolve for FixedResolver {
    fn resolve(&self, _: Name) -> Resolving {
        let address = self.0;
        Box::pin(async move { Ok(Box::new(std::iter::once(address)) as Addrs) })
    }
}

/// Returns the URLs of the proxies in environment variables.
pub fn environment_proxies() -> impl Iterator<Item = Url> {
    let names = [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
    ];
    let values = names
        .into_iter()
        .filter_map(|name| std::env::var(name).ok());
    values.filter_map(|value| {
        Url::parse(&value)
            .or_else(|_| Url::parse(&format!("http://{value}")))
            .ok()
    })
}

/// Returns the hosts of the proxies in environment variables.
pub(super) fn proxy_hosts() -> HashSet<String> {
    environment_proxies()
        .filter_map(|url| url.host_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_read_and_covers_its_host_and_port() {
        let mapping: ConnectTo = "API.Crossref.org:443=127.0.0.1:8443".parse().unwrap();
        let covers = |url: &str| mapping.covers(&Url::parse(url).unwrap());
        assert!(covers("https://api.crossref.org/works"));
        assert!(!covers("http://api.crossref.org/works"));
        assert!(!covers("https://api.crossref.org:8080/works"));
        for text in [
            "",
            "a=1.2.3.4:5",
            "a:1",
            "a:1=b:2",
            "a:x=1.2.3.4:5",
            "a:1=1.2.3.4",
            "a:99999=1.2.3.4:5",
        ] {
            assert!(text.parse::<ConnectTo>().is_err(), "{text}");
        }
    }

    #[test]
    fn literals_are_seen_in_every_spelling() {
        for url in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://[::1]/",
            "http://[::ffff:10.0.0.1]/",
        ] {
            assert!(
                internal_literal(&Url::parse(url).unwrap()).is_some(),
                "{url}"
            );
        }
        assert!(internal_literal(&Url::parse("http://8.8.8.8/").unwrap()).is_none());
        assert!(internal_literal(&Url::parse("http://example.org/").unwrap()).is_none());
    }
}
