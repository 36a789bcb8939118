//! The transport of real programs: reqwest with rustls. Its own redirects and retries are switched
//! off.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http::header::HOST;
use reqwest::Client;
use rustls::ClientConfig;
use url::Url;

use super::addresses::{ConnectTo, FixedResolver, GuardedResolver, internal_literal, proxy_hosts};
use super::dial::{DIAL, DialLayer};
use super::http1_fallback::Http1Hosts;
use super::keep_alive_hosts::KeepAliveHosts;
use super::{
    AddressReach, Body, DialObserver, IncomingResponse, OutgoingRequest, SendError, Transport,
    fault, tls,
};
use crate::clock::{BootInstant, BoxFuture, Clock, SystemClock};

/// Maximum number of header fields in an HTTP/1 response. A response with more is a fault of its
/// origin.
const MAX_RESPONSE_FIELDS: usize = 1_024;
/// Maximum size of the head of an HTTP/2 response in bytes, counted as in RFC 9113 section 6.5.2.
const MAX_HTTP2_HEAD_BYTES: u32 = 128 << 10;

/// Options for connections.
#[derive(Clone, Debug)]
pub struct WireOptions {
    /// Maximum time for a connection, TLS included.
    pub connect_timeout: Duration,
    /// The time for which an unused connection is kept.
    pub idle_connection: Duration,
    /// The [`ConnectTo`] mappings of hosts to addresses.
    pub connect_to: Vec<ConnectTo>,
    /// Certificates to trust besides the machine's, as PEM.
    pub certificates: Vec<Vec<u8>>,
}

impl Default for WireOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            idle_connection: Duration::from_secs(30),
            connect_to: Vec::new(),
            certificates: Vec::new(),
        }
    }
}

/// The reason why a transport could not be created.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The text does not contain a usable certificate.
    #[error("the certificate cannot be used: {0}")]
    Certificate(String),
    /// The TLS library refused its settings.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
    /// The HTTP client refused its settings, for example a proxy in an environment variable.
    #[error("the HTTP client cannot be set up: {0}")]
    Client(String),
}

/// The [`Transport`] of real programs, by reqwest. It has three clients for each [`AddressReach`],
/// and two for each mapped host.
pub struct WireTransport {
    anywhere: Clients,
    public_only: Clients,
    mapped: Vec<(ConnectTo, Client, Client)>,
    kept: KeepAliveHosts,
    streams: Http1Hosts,
}

/// HTTP clients that differ in their protocol, and in whether they keep connections open.
struct Clients {
    /// The client that keeps connections open for the next request.
    keeping: Client,
    /// The client that closes each connection after its response, with any protocol.
    closing: Client,
    /// The client that keeps connections open, and sends one request at a time on each, over
    /// HTTP/1.1.
    one_by_one: Client,
}

/// The fate of a connection after its response.
#[derive(Clone, Copy)]
enum ConnectionReuse {
    Closed,
    OneByOne,
    Kept,
}

impl Clients {
    fn choose(&self, reuse: ConnectionReuse) -> &Client {
        match reuse {
            ConnectionReuse::Closed => &self.closing,
            ConnectionReuse::OneByOne => &self.one_by_one,
            ConnectionReuse::Kept => &self.keeping,
        }
    }
}

impl WireTransport {
    /// Creates the HTTP clients, without connecting to any host.
    ///
    /// # Errors
    /// Returns a [`TransportError`] for an unreadable certificate, or for an invalid proxy in an
    /// environment variable.
    pub fn new(options: &WireOptions) -> Result<Self, TransportError> {
        let tls = tls::client_config(&options.certificates)?;
        let mut plain_tls = tls.clone();
        plain_tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let proxies = Arc::new(proxy_hosts());
        let guarded = |reach| {
            let client = |tls| client(options, tls).dns_resolver(guard(reach, &proxies));
            let (keeping, closing) = (
                client(&tls).build().map_err(failed)?,
                client(&tls)
                    .pool_max_idle_per_host(0)
                    .build()
                    .map_err(failed)?,
            );
            Ok(Clients {
                keeping,
                closing,
                one_by_one: client(&plain_tls).http1_only().build().map_err(failed)?,
            })
        };
        let mapped = options.connect_to.iter().map(|mapping| {
            let client = |tls| {
                client(options, tls)
                    .no_proxy()
                    .dns_resolver(Arc::new(FixedResolver(mapping.address)))
            };
            Ok((
                mapping.clone(),
                client(&tls).build().map_err(failed)?,
                client(&plain_tls).http1_only().build().map_err(failed)?,
            ))
        });
        Ok(Self {
            anywhere: guarded(AddressReach::Anywhere)?,
            public_only: guarded(AddressReach::PublicOnly)?,
            mapped: mapped.collect::<Result<_, _>>()?,
            kept: KeepAliveHosts::new(options.idle_connection),
            streams: Http1Hosts::default(),
        })
    }

    /// Selects the client for a request. For a mapped host, also returns the URL and `Host` field
    /// that reach the mapped address.
    fn route(
        &self,
        url: Url,
        reach: AddressReach,
        now: BootInstant,
    ) -> Result<(&Client, Url, Option<HeaderValue>), SendError> {
        let one_by_one = self.streams.is_one_by_one(&url);
        if let Some((mapping, client, plain)) = self
            .mapped
            .iter()
            .find(|(mapping, ..)| mapping.covers(&url))
        {
            let (url, host) = mapped_url(&url, mapping);
            return Ok((if one_by_one { plain } else { client }, url, host));
        }
        let reuse = if !self.kept.keeps(&url, now) {
            ConnectionReuse::Closed
        } else if one_by_one {
            ConnectionReuse::OneByOne
        } else {
            ConnectionReuse::Kept
        };
        match reach {
            AddressReach::Anywhere => Ok((self.anywhere.choose(reuse), url, None)),
            AddressReach::PublicOnly => match internal_literal(&url) {
                Some(address) => Err(SendError::Internal {
                    host: url.host_str().unwrap_or_default().to_owned(),
                    address,
                }),
                None => Ok((self.public_only.choose(reuse), url, None)),
            },
        }
    }
}

fn client(options: &WireOptions, tls: &ClientConfig) -> reqwest::ClientBuilder {
    Client::builder()
        .tls_backend_preconfigured(tls.clone())
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        // Old servers fold header lines and send invalid names. curl and browsers accept both.
        .http1_allow_obsolete_multiline_headers_in_responses(true)
        .http1_ignore_invalid_headers_in_responses(true)
        .http1_allow_spaces_after_header_name_in_responses(true)
        .http1_max_headers(MAX_RESPONSE_FIELDS)
        .http2_max_header_list_size(MAX_HTTP2_HEAD_BYTES)
        .tcp_nodelay(true)
        .connect_timeout(options.connect_timeout)
        .pool_idle_timeout(options.idle_connection)
        .connector_layer(DialLayer)
}

fn guard(reach: AddressReach, exempt: &Arc<HashSet<String>>) -> Arc<GuardedResolver> {
    Arc::new(GuardedResolver::new(reach, Arc::clone(exempt)))
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "used as a function of map_err"
)]
fn failed(error: reqwest::Error) -> TransportError {
    let cause =
        std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
    TransportError::Client(cause)
}

/// Rewrites a URL so that its connection goes to the address of the [`ConnectTo`] mapping. Returns
/// the `Host` field that is then necessary.
///
/// - The port of a URL takes precedence over the port of a resolved address, so it moves from the
///   URL to the
///   `Host` field.
/// - A literal address in a URL never reaches the resolver, so the mapped address replaces it.
fn mapped_url(url: &Url, mapping: &ConnectTo) -> (Url, Option<HeaderValue>) {
    let authority = match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (host, _) => host.unwrap_or_default().to_owned(),
    };
    let mut routed = url.clone();
    let literal = !matches!(url.host(), Some(url::Host::Domain(_)));
    if literal {
        let _ = routed.set_ip_host(mapping.address.ip());
        let _ = routed.set_port(Some(mapping.address.port()));
    } else {
        let _ = routed.set_port(None);
    }
    let host = (literal || url.port().is_some())
        .then(|| HeaderValue::from_str(&authority).ok())
        .flatten();
    (routed, host)
}

impl Transport for WireTransport {
    fn send(
        &self,
        request: OutgoingRequest,
        dial: Arc<dyn DialObserver>,
    ) -> BoxFuture<'_, Result<IncomingResponse, SendError>> {
        Box::pin(DIAL.scope(dial, async move {
            let asked = request.url.clone();
            let (client, url, host) = self.route(request.url, request.reach, SystemClock.boot())?;
            let mut outgoing = reqwest::Request::new(request.method, url);
            *outgoing.headers_mut() = request.headers;
            if let Some(host) = host {
                outgoing.headers_mut().insert(HOST, host);
            }
            if !request.body.is_empty() {
                *outgoing.body_mut() = Some(request.body.into());
            }
            let answer = client
                .execute(outgoing)
                .await
                .map_err(|error| fault::read(&error));
            match &answer {
                Ok(_) => self.streams.note_answer(&asked),
                Err(SendError::Unprocessed { .. }) => self.streams.note_unprocessed(&asked),
                Err(_) => {}
            }
            let mut response = answer?;
            let (status, version) = (response.status(), response.version());
            let headers = std::mem::take(response.headers_mut());
            Ok(IncomingResponse {
                status,
                version,
                headers,
                body: Box::new(WireBody(response)),
            })
        }))
    }
}

struct WireBody(reqwest::Response);

impl Body for WireBody {
    fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, SendError>> {
        Box::pin(async move { self.0.chunk().await.map_err(|error| fault::read(&error)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_url_keeps_its_name_for_the_server() {
        let route = |url: &str, mapping: &str| {
            let mapping: ConnectTo = mapping.parse().unwrap();
            let (url, host) = mapped_url(&Url::parse(url).unwrap(), &mapping);
            (
                url.to_string(),
                host.map(|host| host.to_str().unwrap().to_owned()),
            )
        };
        assert_eq!(
            route("https://a.org/x", "a.org:443=127.0.0.1:1"),
            ("https://a.org/x".into(), None)
        );
        assert_eq!(
            route("http://a.org:8080/x", "a.org:8080=127.0.0.1:1"),
            ("http://a.org/x".into(), Some("a.org:8080".into()))
        );
        assert_eq!(
            route("http://10.0.0.1/x", "10.0.0.1:80=127.0.0.1:1"),
            ("http://127.0.0.1:1/x".into(), Some("10.0.0.1".into()))
        );
    }
}
