//! What a caller asks the hub for.

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

/// Where a URL came from: what the user supplied may point into the private network, what a server
/// said may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// The user or the embedding program named this host.
    UserSupplied,
    /// It was found in the answer of a server.
    Discovered,
    /// A list that others wrote names it: it may not lead to a host that the user supplied
    /// elsewhere, either.
    Untrusted,
}

/// How long a caller waits for the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateWait {
    /// As the host's `max_delay_ms` says.
    Policy,
    /// Not at all: `fail` mode.
    None,
    /// Up to the deadline: `block` mode.
    Deadline,
    /// Up to this.
    AtMost(Duration),
}

/// How a request of another program is passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayMode {
    /// Whose answers the cache holds: those of one user, or those of all clients.
    pub mode: CacheMode,
    /// The longest time from the beginning of the request to its being sent: one that would wait
    /// longer is refused. Before that, it waits as long at most for another request for the same,
    /// then it is sent by itself.
    pub hold: Duration,
    /// The lifetime of answers that state none; the operator may ask for one.
    pub heuristic: Option<Heuristic>,
    /// Fields of requests on which no response depends, as far as the operator knows. A private
    /// cache tells requests apart by every field that it does not know.
    pub ignored_fields: Arc<[HeaderName]>,
}

/// One request, and how it is to be treated.
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
    /// Stale answers that may be served at once are validated first: the request does that in the
    /// background.
    pub(crate) validates: bool,
    /// It waits for no other request for the same thing: one that waits for this one may lead it.
    pub(crate) is_solo: bool,
    pub(crate) relay: Option<RelayMode>,
}

/// Judges where a redirect leads: returns the URL to go to, which may be another one (https for
/// http), or says why not.
pub type RedirectGate = Arc<dyn Fn(&Url) -> Result<Url, String> + Send + Sync>;

/// Decides by status and beginning of an answer whether it is final, whatever the status says.
pub type IsFinal = fn(StatusCode, &[u8]) -> bool;

/// Whether a request obeys the robots.txt of the sites that it and its redirects lead to.
#[derive(Clone, Debug, Default)]
pub enum RobotsPolicy {
    /// No: library calls and APIs.
    #[default]
    Ignore,
    /// Yes, on every hop: what a crawler or a bulk run fetches.
    Obey {
        /// Hosts whose robots.txt is not requested: the endpoints of APIs, which are not crawled.
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

/// Whether redirects are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectPolicy {
    /// Yes, each hop through its own host's limits.
    Redirects,
    /// No: the redirect itself is the answer.
    Nothing,
}

impl Request {
    /// Asks for a URL with GET, for its metadata, with one unit of weight.
    #[must_use]
    pub fn get(url: Url) -> Self {
        Self::new(Method::GET, url)
    }

    /// Asks for a URL with HEAD.
    #[must_use]
    pub fn head(url: Url) -> Self {
        Self::new(Method::HEAD, url)
    }

    /// Asks for a URL with a method.
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

    /// Says what the request is for.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Adds a header. One that carries credentials, by its name or its value, is sent to the origin
    /// of the request and to no other, as by [`Request::secret_header`].
    #[must_use]
    pub fn header(mut self, name: HeaderName, mut value: HeaderValue) -> Self {
        if is_credential(&name, &value) {
            value.set_sensitive(true);
        }
        self.headers.append(name, value);
        self
    }

    /// Adds a header that carries credentials: it is sent to the origin of the request and to no
    /// other.
    #[must_use]
    pub fn secret_header(mut self, name: HeaderName, mut value: HeaderValue) -> Self {
        value.set_sensitive(true);
        self.secret_headers.push(name.clone());
        self.headers.insert(name, value);
        self
    }

    /// Sends a body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Names the resolver on whose behalf it is: its breaker is asked too.
    #[must_use]
    pub fn resolver(mut self, name: &str) -> Self {
        self.resolver = Some(name.into());
        self
    }

    /// Names the kind of request, where the host has a budget for it.
    #[must_use]
    pub fn kind(mut self, name: &str) -> Self {
        self.kind = Some(name.into());
        self
    }

    /// Names the service: its budget (`limits.services`) is a cost beside the host's, in the same
    /// step.
    #[must_use]
    pub fn service(mut self, name: &str) -> Self {
        self.service = Some(name.into());
        self
    }

    /// Costs more than one unit.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// Bounds the whole request, from its first wait to the end of its body.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Says what to do while a breaker is open.
    #[must_use]
    pub fn patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// Says how long to wait for the rate.
    #[must_use]
    pub fn rate_wait(mut self, wait: RateWait) -> Self {
        self.rate_wait = wait;
        self
    }

    /// Marks the URL as found in the answer of a server: it may not lead into the private network.
    #[must_use]
    pub fn discovered(mut self) -> Self {
        self.provenance = Provenance::Discovered;
        self
    }

    /// Marks the URL as one of a list that others wrote: neither it nor what it redirects to may
    /// lead into the private network, whatever hosts the user supplied there.
    #[must_use]
    pub fn untrusted(mut self) -> Self {
        self.provenance = Provenance::Untrusted;
        self
    }

    /// Says whether the request may be sent twice, whatever its method.
    #[must_use]
    pub fn repeatable(mut self, repeatable: Repeatable) -> Self {
        self.repeatable = Some(repeatable);
        self
    }

    /// Says whether redirects are followed.
    #[must_use]
    pub fn follow(mut self, follow: RedirectPolicy) -> Self {
        self.follow = follow;
        self
    }

    /// Bounds the wait before a retry: one that would be longer ends the request, whose error says
    /// when to come back.
    #[must_use]
    pub fn retry_wait(mut self, most: Duration) -> Self {
        self.retry_wait = Some(most);
        self
    }

    /// Says whether robots.txt is obeyed, on this hop and every one that a redirect leads to.
    #[must_use]
    pub fn robots(mut self, policy: RobotsPolicy) -> Self {
        self.robots = policy;
        self
    }

    /// Takes answers as final that a failing status would have asked for again: a bot challenge
    /// answers 503, also to the next attempt.
    #[must_use]
    pub fn final_when(mut self, is_final: IsFinal) -> Self {
        self.is_final = Some(is_final);
        self
    }

    /// Judges every redirect before it is followed. The first URL is the caller's own.
    #[must_use]
    pub fn redirect_gate(mut self, gate: RedirectGate) -> Self {
        self.redirect_gate = Some(gate);
        self
    }

    /// Makes the request one of a group: when the group is cancelled while the request only waits,
    /// it ends with [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled).
    #[must_use]
    pub fn in_group(mut self, group: Arc<RequestGroup>) -> Self {
        self.group = Some(group);
        self
    }

    /// Waits for `wait`; `None` if the request is cancelled first.
    pub(crate) async fn unless_cancelled<T>(&self, wait: impl Future<Output = T>) -> Option<T> {
        match &self.group {
            Some(group) => group.wait(wait).await,
            None => Some(wait.await),
        }
    }

    /// Sends the cookies of a jar, and keeps in it what answers set, redirects included. Requests
    /// for metadata use none.
    #[must_use]
    pub fn cookies(mut self, jar: Arc<CookieJar>) -> Self {
        self.cookies = Some(jar);
        self
    }

    /// Says how the cache is used, whatever the configuration says.
    #[must_use]
    pub fn cache(mut self, access: CacheAccess) -> Self {
        self.cache = Some(access);
        self
    }

    /// Passes on the request of another program as it is: no header is added, no redirect followed,
    /// no body decoded, no failure repeated, and no lifetime added to what the origin states. The
    /// wait for rate, slots and breaker is bounded by [`RelayMode::hold`]. The body has to be read
    /// as fast as it comes: other requests may wait for it.
    #[must_use]
    pub fn relayed(mut self, relay: RelayMode) -> Self {
        self.relay = Some(relay);
        self.follow = RedirectPolicy::Nothing;
        self.patience = Patience::Wait;
        self.robots = RobotsPolicy::Ignore;
        self
    }

    /// Returns until when a request that begins then may wait before it is sent, where that is
    /// bounded.
    pub(crate) fn held_until(&self, started: BootInstant) -> Option<BootInstant> {
        self.relay.as_ref().map(|relay| started + relay.hold)
    }

    /// Returns the fields on which no response depends, as far as the operator of a relay knows.
    pub(crate) fn ignored_fields(&self) -> &[HeaderName] {
        self.relay
            .as_ref()
            .map_or(&[], |relay| &relay.ignored_fields)
    }

    /// Returns the jar that the request uses.
    pub(crate) fn jar(&self) -> Option<&CookieJar> {
        self.cookies
            .as_deref()
            .filter(|_| self.role != Role::Metadata)
    }

    /// Bounds the decoded body, in bytes.
    #[must_use]
    pub fn max_body(mut self, bytes: u64) -> Self {
        self.max_body = Some(bytes);
        self
    }
}
