//! The request of a caller to the hub, with all its options.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use docstokg_policy::freshness::{CacheMode, Heuristic};
use docstokg_policy::host::Host;
use docstokg_policy::retry::Repeatable;
use docstokg_policy::role::Role;
use docstokg_policy::site::Patience;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use url::Url;

use crate::clock::BootInstant;
use crate::config::CacheAccess;
use crate::cookies::CookieJar;
use crate::group::RequestGroup;
use crate::redact::is_credential;

/// The origin of a URL. User-supplied URLs may have internal addresses, discovered ones may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// The user or the embedding program named this host.
    UserSupplied,
    /// The URL was found in the response of a server.
    Discovered,
}

/// The maximum wait of a caller for the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateWait {
    /// The `max_delay_ms` of the host.
    Policy,
    /// No wait: `fail` mode.
    None,
    /// The deadline of the request: `block` mode.
    Deadline,
    /// A fixed maximum.
    AtMost(Duration),
}

/// The options of a request that the hub relays for another program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayMode {
    /// The owner of the responses in the cache: one user, or all clients.
    pub mode: CacheMode,
    /// The maximum time from the beginning of the request until it is sent. A request that would
    /// wait longer is refused. A wait for an equal request is bounded by the same time; then the
    /// request is sent alone.
    pub hold: Duration,
    /// The lifetime of responses that declare none, if the operator configured one.
    pub heuristic: Option<Heuristic>,
    /// Request fields on which no response depends, according to the operator. A private cache
    /// separates requests by every other unknown field.
    pub ignored_fields: Arc<[HeaderName]>,
}

/// A request, with its options. Created by [`Request::get`], [`Request::head`] or [`Request::new`].
#[derive(Clone)]
pub struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) secret_headers: Vec<HeaderName>,
    pub(crate) body: Bytes,
    pub(crate) role: Role,
    pub(crate) resolver: Option<Arc<str>>,
    pub(crate) kind: Option<Arc<str>>,
    pub(crate) service: Option<Arc<str>>,
    pub(crate) weight: u32,
    pub(crate) deadline: Option<Duration>,
    pub(crate) patience: Patience,
    pub(crate) rate_wait: RateWait,
    pub(crate) provenance: Provenance,
    pub(crate) repeatable: Option<Repeatable>,
    pub(crate) follow: RedirectPolicy,
    pub(crate) max_body: Option<u64>,
    pub(crate) retry_wait: Option<Duration>,
    pub(crate) robots: RobotsPolicy,
    pub(crate) group: Option<Arc<RequestGroup>>,
    pub(crate) is_final: Option<IsFinal>,
    pub(crate) redirect_gate: Option<RedirectGate>,
    pub(crate) cookies: Option<Arc<CookieJar>>,
    pub(crate) cache: Option<CacheAccess>,
    /// `true` for the background validation of a stale response: the response is then validated
    /// even if it may be served.
    pub(crate) validates: bool,
    /// `true` if the request never waits for an equal request, because the leader of that flight
    /// may wait for this request.
    pub(crate) is_solo: bool,
    pub(crate) relay: Option<RelayMode>,
}

/// A check of redirect targets. Returns the URL to request, which may differ (https for http), or
/// the reason for a refusal.
pub type RedirectGate = Arc<dyn Fn(&Url) -> Result<Url, String> + Send + Sync>;

/// Decides from the status and the beginning of a response if it is final, regardless of the usual
/// meaning of the status.
pub type IsFinal = fn(StatusCode, &[u8]) -> bool;

/// The obedience of a request to the robots.txt of its sites, redirects included.
#[derive(Clone, Debug, Default)]
pub enum RobotsPolicy {
    /// Does not read robots.txt: for library calls and APIs.
    #[default]
    Ignore,
    /// Obeys robots.txt on every hop: for crawlers and bulk runs.
    Obey {
        /// Hosts whose robots.txt is not requested: endpoints of APIs, which are not crawled.
        exempt: Arc<HashSet<Host>>,
    },
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let url = crate::redact::redact(&self.url);
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("url", &url)
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

/// The handling of redirects by a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectPolicy {
    /// Redirects are followed, each under the limits of its own host.
    Redirects,
    /// Redirects are not followed: the redirect itself is the response.
    Nothing,
}

impl Request {
    /// Creates a GET request for metadata, of weight one.
    #[must_use]
    pub fn get(url: Url) -> Self {
        Self::new(Method::GET, url)
    }

    /// Creates a HEAD request for metadata, of weight one.
    #[must_use]
    pub fn head(url: Url) -> Self {
        Self::new(Method::HEAD, url)
    }

    /// Creates a request for metadata with a method, of weight one.
    #[must_use]
    pub fn new(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            secret_headers: Vec::new(),
            body: Bytes::new(),
            role: Role::Metadata,
            resolver: None,
            kind: None,
            service: None,
            weight: 1,
            deadline: None,
            patience: Patience::Refuse,
            rate_wait: RateWait::Deadline,
            provenance: Provenance::UserSupplied,
            repeatable: None,
            follow: RedirectPolicy::Redirects,
            max_body: None,
            retry_wait: None,
            robots: RobotsPolicy::Ignore,
            group: None,
            is_final: None,
            redirect_gate: None,
            cookies: None,
            cache: None,
            validates: false,
            is_solo: false,
            relay: None,
        }
    }

    /// Sets the [`Role`]: the purpose of the request.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Adds a header. Headers with credentials are recognised by name or value, and sent only to
    /// the origin of the request, as by [`Request::secret_header`].
    #[must_use]
    pub fn header(mut self, name: HeaderName, mut value: HeaderValue) -> Self {
        if is_credential(&name, &value) {
            value.set_sensitive(true);
        }
        self.headers.append(name, value);
        self
    }

    /// Adds a header with credentials, which is sent only to the origin of the request.
    #[must_use]
    pub fn secret_header(mut self, name: HeaderName, mut value: HeaderValue) -> Self {
        value.set_sensitive(true);
        self.secret_headers.push(name.clone());
        self.headers.insert(name, value);
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets the resolver that the request belongs to, whose breaker then applies as well.
    #[must_use]
    pub fn resolver(mut self, name: &str) -> Self {
        self.resolver = Some(name.into());
        self
    }

    /// Sets the kind of request, if the host has a budget for it.
    #[must_use]
    pub fn kind(mut self, name: &str) -> Self {
        self.kind = Some(name.into());
        self
    }

    /// Sets the service of the request. The budget of the service (`limits.services`) applies
    /// together with that of the host, in one step.
    #[must_use]
    pub fn service(mut self, name: &str) -> Self {
        self.service = Some(name.into());
        self
    }

    /// Sets the weight: the number of permits that the request uses in each budget.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// Sets the deadline of the whole request, from its first wait to the end of its body.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets the [`Patience`]: wait or refuse while a breaker is open.
    #[must_use]
    pub fn patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the maximum wait for the rate, as a [`RateWait`].
    #[must_use]
    pub fn rate_wait(mut self, wait: RateWait) -> Self {
        self.rate_wait = wait;
        self
    }

    /// Marks the URL as found in the response of a server, so that it must not have an internal
    /// address.
    #[must_use]
    pub fn discovered(mut self) -> Self {
        self.provenance = Provenance::Discovered;
        self
    }

    /// Sets the [`Repeatable`] of the request, regardless of its method.
    #[must_use]
    pub fn repeatable(mut self, repeatable: Repeatable) -> Self {
        self.repeatable = Some(repeatable);
        self
    }

    /// Sets the [`RedirectPolicy`] of the request.
    #[must_use]
    pub fn follow(mut self, follow: RedirectPolicy) -> Self {
        self.follow = follow;
        self
    }

    /// Limits the wait before a retry. A longer wait ends the request, and its error names the time
    /// of the next attempt.
    #[must_use]
    pub fn retry_wait(mut self, most: Duration) -> Self {
        self.retry_wait = Some(most);
        self
    }

    /// Sets the [`RobotsPolicy`] of the request, for all its hops.
    #[must_use]
    pub fn robots(mut self, policy: RobotsPolicy) -> Self {
        self.robots = policy;
        self
    }

    /// Treats responses that match [`IsFinal`] as final, although their status would be retried,
    /// such as a bot challenge with status 503.
    #[must_use]
    pub fn final_when(mut self, is_final: IsFinal) -> Self {
        self.is_final = Some(is_final);
        self
    }

    /// Checks every redirect by a [`RedirectGate`] before it is followed. The first URL is not
    /// checked.
    #[must_use]
    pub fn redirect_gate(mut self, gate: RedirectGate) -> Self {
        self.redirect_gate = Some(gate);
        self
    }

    /// Adds the request to a [`RequestGroup`]. If the group is cancelled while the request waits,
    /// the request ends with [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled).
    #[must_use]
    pub fn in_group(mut self, group: Arc<RequestGroup>) -> Self {
        self.group = Some(group);
        self
    }

    /// Waits for `wait`. Returns `None` if the request is cancelled first.
    pub(crate) async fn unless_cancelled<T>(&self, wait: impl Future<Output = T>) -> Option<T> {
        match &self.group {
            Some(group) => group.wait(wait).await,
            None => Some(wait.await),
        }
    }

    /// Sends the cookies of a [`CookieJar`], and keeps those of all responses, redirects included.
    /// Requests for metadata do not use cookies.
    #[must_use]
    pub fn cookies(mut self, jar: Arc<CookieJar>) -> Self {
        self.cookies = Some(jar);
        self
    }

    /// Sets the [`CacheAccess`] of the request instead of the configured one.
    #[must_use]
    pub fn cache(mut self, access: CacheAccess) -> Self {
        self.cache = Some(access);
        self
    }

    /// Relays the request of another program without changes.
    ///
    /// - No header is added, no redirect is followed, and no body is decoded.
    /// - No failure is repeated, and no lifetime is added to those of the origin.
    /// - [`RelayMode::hold`] limits the wait for rate, slots and breaker.
    ///
    /// The caller has to read the body as fast as it arrives, because other requests may wait for
    /// it.
    #[must_use]
    pub fn relayed(mut self, relay: RelayMode) -> Self {
        self.relay = Some(relay);
        self.follow = RedirectPolicy::Nothing;
        self.patience = Patience::Wait;
        self.robots = RobotsPolicy::Ignore;
        self
    }

    /// Returns the latest instant at which a request that begins at `started` may be sent, if
    /// limited.
    pub(crate) fn held_until(&self, started: BootInstant) -> Option<BootInstant> {
        self.relay.as_ref().map(|relay| started + relay.hold)
    }

    /// Returns the fields on which no response depends, according to the operator of a relay.
    pub(crate) fn ignored_fields(&self) -> &[HeaderName] {
        self.relay
            .as_ref()
            .map_or(&[], |relay| &relay.ignored_fields)
    }

    /// Returns the [`CookieJar`] that the request uses, if any.
    pub(crate) fn jar(&self) -> Option<&CookieJar> {
        self.cookies
            .as_deref()
            .filter(|_| self.role != Role::Metadata)
    }

    /// Sets the maximum size of the decoded body in bytes.
    #[must_use]
    pub fn max_body(mut self, bytes: u64) -> Self {
        self.max_body = Some(bytes);
        self
    }
}
