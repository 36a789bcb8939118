//! The hub's configuration, resolved and ready to use.
//!
//! Two steps: [`settings`] is what was written, key by key, with the position of each value;
//! [`settings::Settings::resolve`] turns that into this [`Config`] or into every problem at once.
//! The hub itself only ever sees a `Config`. How sections are read, layered and shown is the
//! business of `docstokg_config`.

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

/// Everything the hub obeys.
#[derive(Clone, Debug)]
pub struct Config {
    /// Rates, waits and concurrency.
    pub limits: LimitsConfig,
    /// Circuit breakers.
    pub breakers: BreakersConfig,
    /// Hosts joined under one operator's limit.
    pub sites: Vec<SiteConfig>,
    /// Retries.
    pub retry: RetryPolicy,
    /// Connections, timeouts and caps.
    pub transport: TransportConfig,
    /// Who is asking.
    pub identity: IdentityConfig,
    /// Stored answers.
    pub cache: CacheConfig,
}

/// The `limits` section.
#[derive(Clone, Debug)]
pub struct LimitsConfig {
    /// What holds for hosts without an entry of their own, by role.
    pub defaults: [RoleLimits; 3],
    /// What holds for known hosts.
    pub hosts: HashMap<Host, HostLimitsConfig>,
    /// Where the state lives.
    pub backend: Backend,
    /// How rates adapt to throttling, where they do.
    pub adaptive: AdaptivePolicy,
    /// Whether they do at hosts for which nothing else is set.
    pub adapts: bool,
    /// The most requests in flight at once, in all, if bounded.
    pub max_inflight: SourcedValue<Option<NonZeroU32>>,
    /// The budgets of services, each within the site that a request of the service goes to.
    pub services: HashMap<Arc<str>, BudgetLimits>,
    /// By how much each window is widened against late arrivals.
    pub guard: Duration,
    /// How requests are spread over windows for which nothing is set. A bulk run sets
    /// [`Pacing::Even`].
    pub pacing: Pacing,
    /// Which limits are learned, where that is set for all hosts.
    pub learn: Option<SourcedValue<LearnSetting>>,
    /// Which limits are learned where nothing is set. A bulk run sets [`LearnSetting::Tighten`].
    pub learn_unless_set: LearnSetting,
    /// The longest distance between requests that a learned limit asks for.
    pub slowest_learned: Duration,
    /// What rate headers do at hosts without an entry of their own.
    pub headers: RateHeadersConfig,
}

/// The limits of one host.
#[derive(Clone, Debug)]
pub struct HostLimitsConfig {
    /// By role, defaults filled in.
    pub roles: [RoleLimits; 3],
    /// By kind of request.
    pub kinds: HashMap<Arc<str>, BudgetLimits>,
    /// What requests of a kind cost in credits, where that is set.
    pub kind_credits: HashMap<Arc<str>, NonZeroU32>,
    /// Which limits are learned, where that is set.
    pub learn: Option<SourcedValue<LearnSetting>>,
    /// Whether rates adapt to throttling, where that is set.
    pub adapts: Option<SourcedValue<bool>>,
    /// What rate headers do.
    pub headers: RateHeadersConfig,
}

/// What rate headers do.
#[derive(Clone, Debug, PartialEq)]
pub struct RateHeadersConfig {
    /// What they may do to limits.
    pub trust: TrustWord,
    /// How a reset is written.
    pub reset: ResetWord,
}

/// The limits of one host and role.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleLimits {
    /// The windows, all of which hold. None: unlimited.
    pub rates: SourcedValue<Vec<Window>>,
    /// The longest that a request waits for the rate.
    pub max_delay: SourcedValue<Duration>,
    /// Whether HEAD requests are charged.
    pub count_head: SourcedValue<bool>,
    /// What a request costs in credits; one leaves that to the host.
    pub credits: NonZeroU32,
    /// The most requests at once, if bounded.
    pub max_concurrent: SourcedValue<Option<NonZeroU32>>,
    /// Whether that bound holds over all processes, through the store.
    pub shared_slots: bool,
    /// How requests are spread over the windows, where that is set.
    pub pacing: Option<SourcedValue<Pacing>>,
}

/// The limits of a budget that several roles or hosts share.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetLimits {
    /// The windows.
    pub rates: SourcedValue<Vec<Window>>,
    /// The most requests at once, if bounded.
    pub max_concurrent: SourcedValue<Option<NonZeroU32>>,
    /// Whether that bound holds over all processes, through the store.
    pub shared_slots: bool,
    /// How requests are spread over the windows, where that is set.
    pub pacing: Option<SourcedValue<Pacing>>,
}

/// Where the state of limits and breakers lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// The kind.
    pub kind: SourcedValue<BackendKind>,
    /// Where it is, for kinds that need it. May hold a password: never printed.
    pub dsn: String,
    /// What to do while it does not answer.
    pub on_failure: OnStoreFailure,
    /// How many processes a process assumes to share it that never reached it.
    pub assumed_peers: u32,
    /// The group of users that share its files; `None` for this user alone.
    pub group: Option<String>,
}

/// The `breakers` section.
#[derive(Clone, Debug)]
pub struct BreakersConfig {
    /// Where the state of breakers lives, where that is another store than the limits'.
    pub backend: Option<Backend>,
    /// What holds for hosts without an entry.
    pub defaults: BreakerConfig,
    /// By host.
    pub hosts: HashMap<Host, BreakerConfig>,
    /// By resolver.
    pub resolvers: HashMap<Arc<str>, BreakerConfig>,
}

/// The breaker of one host or resolver.
#[derive(Clone, Debug)]
pub struct BreakerConfig {
    /// The policy of the host's breaker.
    pub policy: Arc<BreakerPolicy>,
    /// The policies of roles that count for themselves.
    pub roles: [Option<Arc<BreakerPolicy>>; 3],
    /// What counts as a failure.
    pub classifier: Arc<Classifier>,
}

/// Hosts that one operator's limit joins.
#[derive(Clone, Debug)]
pub struct SiteConfig {
    /// The name.
    pub name: Arc<str>,
    /// Its hosts.
    pub hosts: Vec<Host>,
    /// The budget common to them.
    pub common: Option<BudgetLimits>,
}

/// The `transport` section.
#[derive(Clone, Debug, PartialEq)]
pub struct TransportConfig {
    /// The longest that a connection may take, TLS included.
    pub connect_timeout: Duration,
    /// The longest from sending a request to its headers.
    pub header_timeout: Duration,
    /// The longest between two chunks of a body.
    pub idle_timeout: Duration,
    /// The fewest bytes a second that a body may come in, measured over `throughput_window`; zero
    /// for any.
    pub min_throughput: u64,
    /// The time over which the throughput is measured.
    pub throughput_window: Duration,
    /// How long a consumer of a stream may pause before the stream is given up.
    pub consumer_timeout: Duration,
    /// The largest body kept in memory, decoded.
    pub max_body: u64,
    /// The largest file written.
    pub max_file: u64,
    /// The most by which a decoded body may exceed what was sent.
    pub max_decode_ratio: u64,
    /// Redirects followed at most.
    pub max_redirects: u32,
    /// Whether a redirect may lead from https to http.
    pub allow_downgrade: bool,
    /// Whether discovered URLs may lead into the own network.
    pub allow_internal: bool,
    /// The deadline of requests that bring none.
    pub deadline: Option<Duration>,
    /// How files are made durable.
    pub durability: Durability,
}

/// The `identity` section: what the `User-Agent` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityConfig {
    /// An address at which the user can be reached.
    pub mailto: Option<String>,
    /// A page about the user's project.
    pub url: Option<String>,
    /// Which hosts receive the address.
    pub contact: Contact,
}

impl LimitsConfig {
    /// Returns the limits of a host and role.
    #[must_use]
    pub fn of(&self, host: &Host, role: Role) -> &RoleLimits {
        match self.hosts.get(host) {
            Some(limits) => &limits.roles[role.index()],
            None => &self.defaults[role.index()],
        }
    }

    /// Prepares for requests that come as lists, many to one host: at equal distances no server
    /// refuses them, and limits are learned unless the user says otherwise.
    pub fn prepare_for_lists(&mut self) {
        self.pacing = Pacing::Even;
        self.learn_unless_set = LearnSetting::Tighten;
    }

    /// Charges HEAD requests wherever the user does not say whether they are charged.
    pub fn count_head_unless_set(&mut self) {
        let of_hosts = self.hosts.values_mut().flat_map(|host| &mut host.roles);
        for role in self.defaults.iter_mut().chain(of_hosts) {
            if !role.count_head.source.is_written() {
                role.count_head.value = true;
            }
        }
    }

    /// Returns how the rates of a host, or of hosts without an entry of their own, adapt to
    /// throttling, if they do.
    #[must_use]
    pub fn adaptive_of(&self, host: Option<&Host>) -> Option<&AdaptivePolicy> {
        let own = host.and_then(|host| self.hosts.get(host)?.adapts.as_ref());
        own.map_or(self.adapts, |set| set.value)
            .then_some(&self.adaptive)
    }

    /// Returns what requests of kinds cost in credits at a host, where that is set.
    pub(crate) fn kind_credits(&self, host: &Host) -> Box<[(Arc<str>, u32)]> {
        let own = self.hosts.get(host).into_iter();
        own.flat_map(|own| &own.kind_credits)
            .map(|(kind, credits)| (Arc::clone(kind), credits.get()))
            .collect()
    }

    /// Returns which limits of a host are learned: what is set for it, or for all hosts, or else
    /// for the run. An adaptive rate excludes learning.
    #[must_use]
    pub fn learn_of(&self, host: &Host) -> LearnSetting {
        self.learn_in_every_run(Some(host))
            .unwrap_or(self.learn_unless_set)
    }

    /// Returns which limits of a host, or of hosts without an entry of their own, are learned;
    /// `None` where nothing is set and that depends on the run.
    #[must_use]
    pub fn learn_in_every_run(&self, host: Option<&Host>) -> Option<LearnSetting> {
        let own = host.and_then(|host| self.hosts.get(host)?.learn.as_ref());
        match own {
            Some(set) => Some(set.value),
            None if self.adaptive_of(host).is_some() => Some(LearnSetting::Off),
            None => self.learn.as_ref().map(|set| set.value),
        }
    }

    /// Returns what the rate headers of a host may do, and how they are read; `None` where they are
    /// ignored.
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

    /// Returns the windows of a host and role. A search upwards takes the place of the default
    /// windows.
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
    /// Returns the key of the site in the store.
    #[must_use]
    pub fn key(&self) -> SiteKey {
        format!("site:{}", self.name).into()
    }
}

impl Config {
    /// Returns the key in the store of the site that a host belongs to.
    #[must_use]
    pub fn site_key(&self, host: &Host) -> SiteKey {
        self.sites
            .iter()
            .find(|site| site.hosts.contains(host))
            .map_or_else(|| host.shared(), SiteConfig::key)
    }

    /// Returns the configuration of a site by its key; `None` for the key of a host that is not
    /// joined with others.
    #[must_use]
    pub fn joined_site(&self, key: &str) -> Option<&SiteConfig> {
        self.sites.iter().find(|site| *site.key() == *key)
    }

    /// Returns the budgets that a request charges, each with its name: `host:role`, `host#kind`,
    /// `site:name`.
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

/// Tells whether a key of the store is a record of crawl delays that version 0.1.0 wrote, which is
/// no breaker.
#[must_use]
pub fn is_pace(key: &str) -> bool {
    key.starts_with("pace:")
}

/// What the keys of breakers of a process's local connectivity begin with.
const NETWORK: &str = "network:";

/// Returns the key under which a process shows the breaker of its own connectivity to a host to
/// other processes.
#[must_use]
pub(crate) fn network_key(host: &Host, who: &str) -> SiteKey {
    format!("{NETWORK}{host} {who}").into()
}

/// Reads a key of the store as that of a process's local connectivity: the host, and the process.
#[must_use]
pub fn read_network_key(key: &str) -> Option<(Host, &str)> {
    let (host, who) = key.strip_prefix(NETWORK)?.split_once(' ')?;
    Some((Host::parse(host).ok()?, who))
}

/// Returns the key in the store of a resolver's breaker.
#[must_use]
pub fn resolver_key(name: &str) -> SiteKey {
    format!("resolver:{name}").into()
}

impl BreakersConfig {
    /// Returns the breaker of a host.
    #[must_use]
    pub fn of(&self, host: &Host) -> &BreakerConfig {
        self.hosts.get(host).unwrap_or(&self.defaults)
    }

    /// Returns the breaker of a resolver.
    #[must_use]
    pub fn of_resolver(&self, name: &str) -> &BreakerConfig {
        self.resolvers.get(name).unwrap_or(&self.defaults)
    }
}

impl IdentityConfig {
    /// Writes the `User-Agent` for a role: `docstokg/0.1.0 (+https://…; mailto:…)`.
    ///
    /// Nothing is named that was not configured; the address goes to services, and to every host
    /// where that is wanted.
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
