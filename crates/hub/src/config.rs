//! The hub's configuration, resolved and ready to use.
//!
//! The configuration has two forms. [`settings`] has the written values, key by key, with their
//! positions. [`settings::Settings::resolve`] converts them to this [`Config`], or returns every
//! problem at once. The hub itself uses only a [`Config`]. [`docstokg_config`] reads, layers and
//! shows sections.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::adaptive::AdaptivePolicy;
use docstokg_policy::breaker::BreakerPolicy;
use docstokg_policy::classify::Classifier;
use docstokg_policy::host::Host;
use docstokg_policy::pacing::Pacing;
use docstokg_policy::rate::Window;
use docstokg_policy::rate_headers::{RateHeaderHints, Trust};
use docstokg_policy::retry::RetryPolicy;
use docstokg_policy::role::Role;
use docstokg_stores::SiteKey;

mod cache;
pub mod environment;
pub mod flags;
pub mod load;
mod resolve;
mod section_file;
pub mod settings;
pub mod show;
mod values;
mod words;

pub use cache::{CacheAccess, CacheConfig, CacheRules};
pub use docstokg_config::{Ceiling, ConfigProblem, HiddenText, SourcedValue, ValueSource};
pub use resolve::is_email_address;
pub use values::{BaseUrl, Dsn, HostList, LearnSetting, LookUp, LookUps, RateList, StatusList};
pub use words::{
    BackendKind, Concurrency, Contact, Durability, OnStoreFailure, PacingWord, ResetWord, TrustWord,
};

/// The complete configuration of a hub.
#[derive(Clone, Debug)]
pub struct Config {
    /// Rates, waits and concurrency.
    pub limits: LimitsConfig,
    /// Circuit breakers.
    pub breakers: BreakersConfig,
    /// Hosts joined under one operator's limit.
    pub sites: Vec<SiteConfig>,
    /// The number and backoff of retries.
    pub retry: RetryPolicy,
    /// Connections, timeouts and caps.
    pub transport: TransportConfig,
    /// The identity of the client in the `User-Agent`.
    pub identity: IdentityConfig,
    /// The response cache.
    pub cache: CacheConfig,
}

/// The resolved `limits` section.
#[derive(Clone, Debug)]
pub struct LimitsConfig {
    /// The [`RoleLimits`] of hosts without an entry, by role.
    pub defaults: [RoleLimits; 3],
    /// The [`HostLimitsConfig`] of hosts with an entry.
    pub hosts: HashMap<Host, HostLimitsConfig>,
    /// The [`Backend`] of the limiter's state.
    pub backend: Backend,
    /// The parameters of adaptive rates. [`LimitsConfig::adapts`] and [`HostLimitsConfig::adapts`]
    /// determine the hosts whose rates adapt.
    pub adaptive: AdaptivePolicy,
    /// `true` if rates adapt to throttling at hosts that do not set this themselves.
    pub adapts: bool,
    /// Maximum number of requests in flight over all hosts; `None` for no limit.
    pub max_inflight: SourcedValue<Option<NonZeroU32>>,
    /// The [`BudgetLimits`] of services, by name. Each applies within the site that receives the
    /// requests of the service.
    pub services: HashMap<Arc<str>, BudgetLimits>,
    /// The time by which each window is extended, because requests may arrive late at the origin.
    pub guard: Duration,
    /// The way in which requests are spread over windows that do not set this themselves. A bulk
    /// run sets [`Pacing::Even`].
    pub pacing: Pacing,
    /// The [`LearnSetting`] that the user sets for all hosts, if any.
    pub learn: Option<SourcedValue<LearnSetting>>,
    /// The [`LearnSetting`] of hosts for which the user sets none. A bulk run sets
    /// [`LearnSetting::Tighten`].
    pub learn_unless_set: LearnSetting,
    /// Maximum time between two requests that a learned limit may demand.
    pub slowest_learned: Duration,
    /// The [`RateHeadersConfig`] of hosts without an entry.
    pub headers: RateHeadersConfig,
}

/// The limits of one host.
#[derive(Clone, Debug)]
pub struct HostLimitsConfig {
    /// The [`RoleLimits`] by role, with defaults filled in.
    pub roles: [RoleLimits; 3],
    /// The [`BudgetLimits`] of kinds of requests, by name.
    pub kinds: HashMap<Arc<str>, BudgetLimits>,
    /// The cost of a request in credits, for the kinds that have a cost of their own.
    pub kind_credits: HashMap<Arc<str>, NonZeroU32>,
    /// The [`LearnSetting`] of this host, if given.
    pub learn: Option<SourcedValue<LearnSetting>>,
    /// `true` if the rates of this host adapt to throttling; `None` if [`LimitsConfig::adapts`]
    /// decides.
    pub adapts: Option<SourcedValue<bool>>,
    /// The effect of rate headers at this host.
    pub headers: RateHeadersConfig,
}

/// The effect of rate headers, and their form.
#[derive(Clone, Debug, PartialEq)]
pub struct RateHeadersConfig {
    /// The effect of rate headers on limits.
    pub trust: TrustWord,
    /// The form in which a header declares the time of a reset.
    pub reset: ResetWord,
}

/// The limits of one host and role.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleLimits {
    /// The windows that apply together. An empty list means no limit.
    pub rates: SourcedValue<Vec<Window>>,
    /// Maximum wait of a request for a rate limit.
    pub max_delay: SourcedValue<Duration>,
    /// `true` if HEAD requests spend tokens of the windows.
    pub count_head: SourcedValue<bool>,
    /// The cost of a request in credits. With the value 1, the cost that the host declares in its
    /// headers replaces it.
    pub credits: NonZeroU32,
    /// Maximum number of requests at once; `None` for no limit.
    pub max_concurrent: SourcedValue<Option<NonZeroU32>>,
    /// `true` if `max_concurrent` applies to all processes together, through the store.
    pub shared_slots: bool,
    /// The way in which requests are spread over the windows; `None` for that of
    /// [`LimitsConfig::pacing`].
    pub pacing: Option<SourcedValue<Pacing>>,
}

/// The limits of a budget that several roles or hosts share.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetLimits {
    /// The windows that apply together.
    pub rates: SourcedValue<Vec<Window>>,
    /// Maximum number of requests at once; `None` for no limit.
    pub max_concurrent: SourcedValue<Option<NonZeroU32>>,
    /// `true` if `max_concurrent` applies to all processes together, through the store.
    pub shared_slots: bool,
    /// The way in which requests are spread over the windows; `None` for that of
    /// [`LimitsConfig::pacing`].
    pub pacing: Option<SourcedValue<Pacing>>,
}

/// The store of the state of limits and breakers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// The kind of store.
    pub kind: SourcedValue<BackendKind>,
    /// The location of the store, if its kind needs one. It may contain a password and must not be
    /// printed.
    pub dsn: String,
    /// The behaviour while the store does not reply, see [`OnStoreFailure`].
    pub on_failure: OnStoreFailure,
    /// The number of processes that are assumed to share the limits, by a process that has never
    /// reached the store.
    pub assumed_peers: u32,
    /// The group of users that share the store's files; `None` if only this user may access them.
    pub group: Option<String>,
}

/// The resolved `breakers` section.
#[derive(Clone, Debug)]
pub struct BreakersConfig {
    /// The store of breakers; `None` if it is the store of limits.
    pub backend: Option<Backend>,
    /// The [`BreakerConfig`] of hosts and resolvers without an entry.
    pub defaults: BreakerConfig,
    /// The [`BreakerConfig`] of hosts with an entry.
    pub hosts: HashMap<Host, BreakerConfig>,
    /// The [`BreakerConfig`] of resolvers with an entry.
    pub resolvers: HashMap<Arc<str>, BreakerConfig>,
}

/// The breaker of one host or resolver.
#[derive(Clone, Debug)]
pub struct BreakerConfig {
    /// The [`BreakerPolicy`] of the breaker that all roles share.
    pub policy: Arc<BreakerPolicy>,
    /// The policies of roles that count their own failures, by role; `None` for other roles.
    pub roles: [Option<Arc<BreakerPolicy>>; 3],
    /// The [`Classifier`] that decides whether a response counts as a failure.
    pub classifier: Arc<Classifier>,
}

/// Hosts that belong to one operator and share limits.
#[derive(Clone, Debug)]
pub struct SiteConfig {
    /// The name of the site.
    pub name: Arc<str>,
    /// The hosts of the site.
    pub hosts: Vec<Host>,
    /// The [`BudgetLimits`] of all hosts of the site together, if any.
    pub common: Option<BudgetLimits>,
}

/// The resolved `transport` section.
#[derive(Clone, Debug, PartialEq)]
pub struct TransportConfig {
    /// Maximum time for a connection, TLS included.
    pub connect_timeout: Duration,
    /// Maximum time from sending a request to the headers of its response.
    pub header_timeout: Duration,
    /// Maximum time between two chunks of a body.
    pub idle_timeout: Duration,
    /// Minimum rate of a body in bytes per second, measured over `throughput_window`; zero for no
    /// minimum.
    pub min_throughput: u64,
    /// The time over which the throughput of a body is measured.
    pub throughput_window: Duration,
    /// Maximum time for which the reader of a stream may pause before the stream is cancelled.
    pub consumer_timeout: Duration,
    /// Maximum size of a body in memory, decoded, in bytes.
    pub max_body: u64,
    /// Maximum size of a file, in bytes.
    pub max_file: u64,
    /// Maximum ratio of decoded bytes to received bytes.
    pub max_decode_ratio: u64,
    /// Maximum number of redirects that the hub follows.
    pub max_redirects: u32,
    /// `true` if a redirect may lead from https to http.
    pub allow_downgrade: bool,
    /// `true` if discovered URLs may lead to loopback, private and link-local addresses.
    pub allow_internal: bool,
    /// The deadline of requests that do not set their own; `None` for no deadline.
    pub deadline: Option<Duration>,
    /// The [`Durability`] of files.
    pub durability: Durability,
}

/// The resolved `identity` section: the content of the `User-Agent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityConfig {
    /// The user's e-mail address.
    pub mailto: Option<String>,
    /// The URL of a page about the user's project.
    pub url: Option<String>,
    /// The hosts that receive the e-mail address.
    pub contact: Contact,
}

impl LimitsConfig {
    /// Returns the [`RoleLimits`] of a host and role.
    #[must_use]
    pub fn of(&self, host: &Host, role: Role) -> &RoleLimits {
        match self.hosts.get(host) {
            Some(limits) => &limits.roles[role.index()],
            None => &self.defaults[role.index()],
        }
    }

    /// Prepares the configuration for bulk runs with many requests to one host. Requests are sent
    /// at equal distances, which every server accepts, and limits are learned. Settings of the user
    /// take precedence.
    pub fn prepare_for_lists(&mut self) {
        self.pacing = Pacing::Even;
        self.learn_unless_set = LearnSetting::Tighten;
    }

    /// Lets HEAD requests spend tokens, unless the user has configured whether they do.
    pub fn count_head_unless_set(&mut self) {
        let of_hosts = self.hosts.values_mut().flat_map(|host| &mut host.roles);
        for role in self.defaults.iter_mut().chain(of_hosts) {
            if !role.count_head.source.is_written() {
                role.count_head.value = true;
            }
        }
    }

    /// Returns the [`AdaptivePolicy`] of a host; `None` if its rates do not adapt. `None` as the
    /// host stands for all hosts without an entry.
    #[must_use]
    pub fn adaptive_of(&self, host: Option<&Host>) -> Option<&AdaptivePolicy> {
        let own = host.and_then(|host| self.hosts.get(host)?.adapts.as_ref());
        own.map_or(self.adapts, |set| set.value)
            .then_some(&self.adaptive)
    }

    /// Returns the kinds of requests that have their own cost at a host, with the cost in credits.
    pub(crate) fn kind_credits(&self, host: &Host) -> Box<[(Arc<str>, u32)]> {
        let own = self.hosts.get(host).into_iter();
        own.flat_map(|own| &own.kind_credits)
            .map(|(kind, credits)| (Arc::clone(kind), credits.get()))
            .collect()
    }

    /// Returns the [`LearnSetting`] of a host: its own, otherwise that of all hosts, otherwise that
    /// of the run. If the rates of the host adapt, its limits are not learned, unless its own
    /// setting says so.
    #[must_use]
    pub fn learn_of(&self, host: &Host) -> LearnSetting {
        self.learn_in_every_run(Some(host))
            .unwrap_or(self.learn_unless_set)
    }

    /// Returns the [`LearnSetting`] that a host has in every run; `None` if each run decides.
    /// `None` as the host stands for all hosts without an entry.
    #[must_use]
    pub fn learn_in_every_run(&self, host: Option<&Host>) -> Option<LearnSetting> {
        let own = host.and_then(|host| self.hosts.get(host)?.learn.as_ref());
        match own {
            Some(set) => Some(set.value),
            None if self.adaptive_of(host).is_some() => Some(LearnSetting::Off),
            None => self.learn.as_ref().map(|set| set.value),
        }
    }

    /// Returns the [`Trust`] in the rate headers of a host, with hints for reading them; `None` if
    /// they are ignored.
    #[must_use]
    pub fn headers_of(&self, host: &Host) -> Option<(Trust, RateHeaderHints)> {
        let own = self.hosts.get(host).map(|host| &host.headers);
        let headers = own.unwrap_or(&self.headers);
        let trust = match headers.trust {
            TrustWord::Ignore => return None,
            TrustWord::Tighten => Trust::Tighten,
            TrustWord::Raise => Trust::Raise,
        };
        let hints = RateHeaderHints {
            reset: headers.reset.into(),
            window: None,
        };
        Some((trust, hints))
    }

    /// Returns the [`Window`]s of a host and role. If limits are learned by a search, its highest
    /// rate replaces the default windows.
    #[must_use]
    pub fn windows_of(&self, host: &Host, role: Role) -> Vec<Window> {
        let rates = &self.of(host, role).rates;
        match self.learn_of(host) {
            LearnSetting::UpTo(ceiling) if rates.source == ValueSource::Default => vec![ceiling],
            _ => rates.value.clone(),
        }
    }
}

impl SiteConfig {
    /// Returns the [`SiteKey`] of the site in the store.
    #[must_use]
    pub fn key(&self) -> SiteKey {
        format!("site:{}", self.name).into()
    }
}

impl Config {
    /// Returns the [`SiteKey`] of the site that a host belongs to.
    #[must_use]
    pub fn site_key(&self, host: &Host) -> SiteKey {
        self.sites
            .iter()
            .find(|site| site.hosts.contains(host))
            .map_or_else(|| host.shared(), SiteConfig::key)
    }

    /// Returns the [`SiteKey`] of a host: that of its joined site, or its own.
    #[must_use]
    pub fn joined_site(&self, key: &str) -> Option<&SiteConfig> {
        self.sites.iter().find(|site| *site.key() == *key)
    }

    /// Returns the joined site with this key; `None` for the key of a single host.
    #[must_use]
    pub fn budgets(&self, host: &Host, role: Role, kind: Option<&str>) -> Vec<(String, &[Window])> {
        let mut budgets = vec![(
            format!("{host}:{role}"),
            self.limits.of(host, role).rates.value.as_slice(),
        )];
        if let Some(kind) = kind
            && let Some(limits) = self
                .limits
                .hosts
                .get(host)
                .and_then(|limits| limits.kinds.get(kind))
        {
            budgets.push((format!("{host}#{kind}"), &limits.rates.value));
        }
        if let Some(site) = self.sites.iter().find(|site| site.hosts.contains(host))
            && let Some(common) = &site.common
        {
            budgets.push((site.key().to_string(), &common.rates.value));
        }
        budgets
    }
}

/// Returns true if `key` is a record of crawl delays in the store, which version 0.1.0 wrote. Such
/// a record is not a breaker.
#[must_use]
pub fn is_pace(key: &str) -> bool {
    key.starts_with("pace:")
}

/// The prefix of the keys of breakers of a process's local connectivity.
const NETWORK: &str = "network:";

/// Returns the [`SiteKey`] under which other processes see the breaker of a process's own
/// connectivity to a host. `who` names the process.
#[must_use]
pub(crate) fn network_key(host: &Host, who: &str) -> SiteKey {
    format!("{NETWORK}{host} {who}").into()
}

/// Parses a key of `network_key`, and returns its host and the name of its process; `None` for
/// other keys.
#[must_use]
pub fn read_network_key(key: &str) -> Option<(Host, &str)> {
    let (host, who) = key.strip_prefix(NETWORK)?.split_once(' ')?;
    Some((Host::parse(host).ok()?, who))
}

/// Returns the [`SiteKey`] of a resolver's breaker.
#[must_use]
pub fn resolver_key(name: &str) -> SiteKey {
    format!("resolver:{name}").into()
}

impl BreakersConfig {
    /// Returns the [`BreakerConfig`] of a host.
    #[must_use]
    pub fn of(&self, host: &Host) -> &BreakerConfig {
        self.hosts.get(host).unwrap_or(&self.defaults)
    }

    /// Returns the [`BreakerConfig`] of a resolver.
    #[must_use]
    pub fn of_resolver(&self, name: &str) -> &BreakerConfig {
        self.resolvers.get(name).unwrap_or(&self.defaults)
    }
}

impl IdentityConfig {
    /// Returns the `User-Agent` for a role: `docstokg/0.1.0 (+https://…; mailto:…)`.
    ///
    /// Parts that are not configured are left out. The e-mail address is in metadata requests, and
    /// with [`Contact::Everywhere`] in all requests.
    #[must_use]
    pub fn user_agent(&self, role: Role) -> String {
        let url = self.url.as_ref().map(|url| format!("+{url}"));
        let receives_address = role == Role::Metadata || self.contact == Contact::Everywhere;
        let mailto = self
            .mailto
            .as_ref()
            .filter(|_| receives_address)
            .map(|mailto| format!("mailto:{mailto}"));
        let about: Vec<String> = url.into_iter().chain(mailto).collect();
        let name = concat!("docstokg/", env!("CARGO_PKG_VERSION"));
        if about.is_empty() {
            name.to_owned()
        } else {
            format!("{name} ({})", about.join("; "))
        }
    }
}
