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

/// The origin of a URL. Only a URL that the user supplied may lead to an internal address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// The user or the embedding program supplied the URL.
    UserSupplied,
    /// The URL was found in the response of a server.
    Discovered,
    /// A list that other people wrote named the URL. Even hosts that the user supplied elsewhere
    /// may not have internal addresses.
    Untrusted,
}

/// The maximum time for which a request may wait for a rate limit. If the wait would be longer, the
/// request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateWait {
    /// The `max_delay_ms` of the host and role.
    Policy,
    /// No wait at all: the `fail` mode.
    None,
    /// The time until the deadline of the request: the `block` mode.
    Deadline,
    /// At most this time.
    AtMost(Duration),
}

/// The options of a request that the hub relays for another program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayMode {
    /// The owner of the responses in the cache: a single user, or all clients together.
    pub mode: CacheMode,
    /// The maximum time from the beginning of the request until it is sent. A request that would
    /// wait longer for its permit is refused. A request that has waited this long for an equal one
    /// is sent alone.
    pub hold: Duration,
    /// The rule for the lifetime of responses that declare none; `None` if the operator has
    /// configured no rule.
    pub heuristic: Option<Heuristic>,
    /// Header fields on which, according to the operator, no response depends. The cache stores
    /// responses separately by every other field that it does not know.
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
    /// `true` for a validation in the background. The request is then sent even if the stored
    /// response may be served without it.
    pub(crate) validates: bool,
    /// `true` if the request never waits for an equal request in flight. This prevents a deadlock
    /// if the leader of that flight waits for this request.
    pub(crate) is_solo: bool,
    pub(crate) relay: Option<RelayMode>,
}

/// A function that checks the target of a redirect. Returns the URL to request, which may differ
/// from the target (https instead of http), or the reason why the redirect is refused.
pub type RedirectGate = Arc<dyn Fn(&Url) -> Result<Url, String> + Send + Sync>;

/// A function that decides whether a response is final although its status would be retried. Its
/// arguments are the status and the beginning of the body.
pub type IsFinal = fn(StatusCode, &[u8]) -> bool;

/// The way in which a request, with its redirects, treats the robots.txt of sites.
#[derive(Clone, Debug, Default)]
pub enum RobotsPolicy {
    /// The request does not read robots.txt. This is for APIs and for single calls of a library.
    #[default]
    Ignore,
    /// Every hop of the request obeys robots.txt. This is for crawlers and bulk runs.
    Obey {
        /// Hosts whose robots.txt is not read, such as those of APIs, which are not crawled.
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

/// The way in which a request treats redirects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectPolicy {
    /// Redirects are followed, each under the limits of its own host.
    Redirects,
    /// Redirects are not followed: a redirect is returned as the response.
    Nothing,
}

impl Request {
    /// Creates a GET request with the role of metadata and weight one.
    ///
    /// ```
    /// use docstokg_hub::{RateWait, Request, Role};
    /// use std::time::Duration;
    ///
    /// let request = Request::get("https://api.example/work?api_key=secret".parse()?)
    ///     .role(Role::Landing)
    ///     .rate_wait(RateWait::AtMost(Duration::from_secs(2)))
    ///     .deadline(Duration::from_secs(30));
    /// assert!(!format!("{request:?}").contains("secret"), "credentials are not shown");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn get(url: Url) -> Self {
        Self::new(Method::GET, url)
    }

    /// Creates a HEAD request with the role of metadata and weight one.
    #[must_use]
    pub fn head(url: Url) -> Self {
        Self::new(Method::HEAD, url)
    }

    /// Creates a request with the role of metadata and weight one.
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

    /// Sets the [`Role`]: the purpose of the request, which determines its limits.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Adds a header field. If its name or value shows that it contains credentials, it is treated
    /// as by [`Request::secret_header`].
    #[must_use]
    pub fn header(mut self, name: HeaderName, mut value: HeaderValue) -> Self {
        if is_credential(&name, &value) {
            value.set_sensitive(true);
        }
        self.headers.append(name, value);
        self
    }

    /// Adds a header field with credentials. After a redirect, it is not sent to another origin.
    #[must_use]
    pub fn secret_header(mut self, name: HeaderName, mut value: HeaderValue) -> Self {
        value.set_sensitive(true);
        self.secret_headers.push(name.clone());
        self.headers.insert(name, value);
        self
    }

    /// Sets the body of the request.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets the resolver that the request belongs to. The request then also passes the breaker of
    /// the resolver.
    #[must_use]
    pub fn resolver(mut self, name: &str) -> Self {
        self.resolver = Some(name.into());
        self
    }

    /// Sets the kind of the request. If the host has a budget for this kind, the request uses it.
    #[must_use]
    pub fn kind(mut self, name: &str) -> Self {
        self.kind = Some(name.into());
        self
    }

    /// Sets the service that the request belongs to. The request then also uses the budget of the
    /// service (`limits.services`), together with that of the host.
    #[must_use]
    pub fn service(mut self, name: &str) -> Self {
        self.service = Some(name.into());
        self
    }

    /// Sets the weight: the number of tokens that the request spends in each budget.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// Sets the time for the whole request, from its first wait to the end of its body.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets the [`Patience`]: whether the request waits or is refused while a breaker is open.
    #[must_use]
    pub fn patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// Sets the maximum wait for a rate limit, as a [`RateWait`].
    #[must_use]
    pub fn rate_wait(mut self, wait: RateWait) -> Self {
        self.rate_wait = wait;
        self
    }

    /// Marks the URL as found in the response of a server, so that it must not lead to an internal
    /// address.
    #[must_use]
    pub fn discovered(mut self) -> Self {
        self.provenance = Provenance::Discovered;
        self
    }

    /// Marks the URL as one of a list that other people wrote: the URL and its redirects may not
    /// lead into the private network.
    #[must_use]
    pub fn untrusted(mut self) -> Self {
        self.provenance = Provenance::Untrusted;
        self
    }

    /// Sets the [`Repeatable`]: whether the request may be repeated after a failure. By default,
    /// its method decides.
    #[must_use]
    pub fn repeatable(mut self, repeatable: Repeatable) -> Self {
        self.repeatable = Some(repeatable);
        self
    }

    /// Sets the [`RedirectPolicy`]: whether the request follows redirects.
    ///
    /// ```
    /// use docstokg_hub::{RedirectPolicy, Request};
    /// # use docstokg_origin_sim::{OriginScript, ScriptedReply, Simulation};
    /// # let simulation = Simulation::exact();
    /// # let origin = OriginScript::new("a.example").route("/old", [ScriptedReply::redirect(302, "/new")]);
    /// # let (hub, _web) = simulation.hub([origin]);
    /// # simulation.block_on(async move {
    /// let request = Request::get("http://a.example/old".parse()?);
    /// let followed = hub.fetch(request.clone()).await?;
    /// assert_eq!(followed.head.url.path(), "/new");
    /// let redirect = hub.fetch(request.follow(RedirectPolicy::Nothing)).await?;
    /// assert_eq!(redirect.head.status, 302);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[must_use]
    pub fn follow(mut self, follow: RedirectPolicy) -> Self {
        self.follow = follow;
        self
    }

    /// Limits the wait before a retry. If the wait would be longer, the request ends with an error
    /// that says when to try again.
    #[must_use]
    pub fn retry_wait(mut self, most: Duration) -> Self {
        self.retry_wait = Some(most);
        self
    }

    /// Sets the [`RobotsPolicy`]: whether the request, with all its hops, obeys robots.txt.
    #[must_use]
    pub fn robots(mut self, policy: RobotsPolicy) -> Self {
        self.robots = policy;
        self
    }

    /// Treats a response as final if the [`IsFinal`] function returns `true`, although its status
    /// would be retried. An example is a bot challenge with status 503.
    #[must_use]
    pub fn final_when(mut self, is_final: IsFinal) -> Self {
        self.is_final = Some(is_final);
        self
    }

    /// Sets a [`RedirectGate`] that checks every redirect before it is followed. The first URL is
    /// not checked.
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

    /// Waits for the future `wait`. Returns `None` if the request is cancelled first.
    pub(crate) async fn unless_cancelled<T>(&self, wait: impl Future<Output = T>) -> Option<T> {
        match &self.group {
            Some(group) => group.wait(wait).await,
            None => Some(wait.await),
        }
    }

    /// Sends the cookies of a [`CookieJar`], and adds those that the responses set, redirects
    /// included. Requests for metadata do not use cookies.
    #[must_use]
    pub fn cookies(mut self, jar: Arc<CookieJar>) -> Self {
        self.cookies = Some(jar);
        self
    }

    /// Sets the [`CacheAccess`] of the request, instead of the configured one.
    #[must_use]
    pub fn cache(mut self, access: CacheAccess) -> Self {
        self.cache = Some(access);
        self
    }

    /// Marks the request as one of another program, which is relayed without changes:
    ///
    /// - No header is added, no redirect is followed, and no body is decoded.
    /// - The request is not repeated after a failure, and the lifetimes of its responses are not
    ///   extended.
    /// - [`RelayMode::hold`] limits the wait for rate limits, slots and breakers.
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

    /// Returns the latest instant at which a relayed request that began at `started` may be sent;
    /// `None` for other requests.
    pub(crate) fn held_until(&self, started: BootInstant) -> Option<BootInstant> {
        self.relay.as_ref().map(|relay| started + relay.hold)
    }

    /// Returns the header fields on which no response depends, according to the operator of the
    /// relay.
    pub(crate) fn ignored_fields(&self) -> &[HeaderName] {
        self.relay
            .as_ref()
            .map_or(&[], |relay| &relay.ignored_fields)
    }

    /// Returns the [`CookieJar`] that the request uses; `None` if it uses no cookies.
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
