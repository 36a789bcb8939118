//! The configuration as written: every field optional, every value with its place.
//!
//! Each group of keys is declared once, with the documentation and the default of every key;
//! reading, layering, the JSON schema and the table in `docs/configuration.md` all come from that
//! declaration.

use std::num::NonZeroU32;

use docstokg_policy::host::Host;
use serde_json::{Value as Json, json};

use super::keys::{Described, Key};
use super::problem::{Problem, Source, Sourced};
use super::reader::{Ceiling, FromNode, Hosts, MapReader, Rates, Section, Statuses};
use super::words::{BackendKind, Concurrency, Durability, OnStoreFailure};

/// Puts one layer over another: what the upper one says wins, key by key.
pub(crate) trait Layer: Sized {
    /// Joins both.
    fn over(self, lower: Self) -> Self;
}

macro_rules! section {
    (
        $(#[$meta:meta])*
        $name:ident {
            $( $(#[doc = $doc:literal])+ $field:ident: $type:ty = $default:literal, )*
            $( @ $nested:ident: $section:ty, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $field: Option<Sourced<$type>>, )*
            $( #[doc = "A nested group of keys."] pub $nested: $section, )*
        }

        impl Section for $name {
            fn read(reader: &mut MapReader<'_>) -> Self {
                Self {
                    $( $field: reader.take(stringify!($field)), )*
                    $( $nested: reader.section(stringify!($nested)), )*
                }
            }
        }

        impl Layer for $name {
            fn over(self, lower: Self) -> Self {
                Self {
                    $( $field: self.$field.or(lower.$field), )*
                    $( $nested: self.$nested.over(lower.$nested), )*
                }
            }
        }

        impl Described for $name {
            fn keys(prefix: &str, keys: &mut Vec<Key>) {
                let _ = &prefix;
                $( keys.push(Key { path: format!("{prefix}{}", stringify!($field)), kind: <$type as FromNode>::KIND, default: $default, about: concat!($($doc),+).trim() }); )*
                $( <$section as Described>::keys(&format!("{prefix}{}.", stringify!($nested)), keys); )*
            }

            fn schema() -> Json {
                #[allow(unused_mut, reason = "some groups have no keys of one sort")]
                let mut properties = serde_json::Map::new();
                $( properties.insert(stringify!($field).to_owned(), with_about(<$type as FromNode>::schema(), concat!($($doc),+))); )*
                $( properties.insert(stringify!($nested).to_owned(), <$section as Described>::schema()); )*
                json!({ "type": "object", "additionalProperties": false, "properties": properties })
            }

            fn show(&self) -> Json {
                #[allow(unused_mut, reason = "some groups have no keys of one sort")]
                let mut shown = serde_json::Map::new();
                $( if let Some(set) = &self.$field { shown.insert(stringify!($field).to_owned(), FromNode::show(&set.value)); } )*
                $( match Described::show(&self.$nested) { Json::Object(inner) if inner.is_empty() => {} inner => { shown.insert(stringify!($nested).to_owned(), inner); } } )*
                Json::Object(shown)
            }
        }
    };
}

mod runs;

pub use runs::{EndpointSettings, ResolverSettings, SloSettings, TelemetrySettings};

fn with_about(mut schema: Json, about: &str) -> Json {
    if let Json::Object(map) = &mut schema {
        map.insert("description".to_owned(), json!(about.trim()));
    }
    schema
}

section! {
    /// The limits of one host and role.
    RoleSettings {
        /// Windows that all hold: `10/SECOND`, `1/3SECOND`, `5000/HOUR`, joined by `+` or as a
        /// list; an empty list is no limit
        rates: Rates = "by role",
        /// The longest that a request waits for the rate before it is refused, in milliseconds;
        /// `fetch` and callers that ask for it obey this, a bulk run waits in line instead
        max_delay_ms: u64 = "by role",
        /// Whether HEAD requests spend tokens
        count_head: bool = "false",
        /// The most requests at once; `null` or 0 for no bound
        max_concurrent: Ceiling = "by role",
        /// Over what that bound holds: `local` (this process) or `shared` (all processes that share
        /// the store)
        concurrency: Concurrency = "local",
    }
}

section! {
    /// A budget that several roles or hosts share.
    SharedSettings {
        /// Windows that all hold
        rates: Rates = "none",
        /// The most requests at once; `null` or 0 for no bound
        max_concurrent: Ceiling = "none",
        /// Over what that bound holds: `local` (this process) or `shared` (all processes that share
        /// the store)
        concurrency: Concurrency = "local",
    }
}

section! {
    /// Where the state of limits and breakers lives.
    BackendSettings {
        /// The store: `memory` (this process only), `multiprocess` (this machine, a mapped file),
        /// `sqlite` (this machine, a database) or `redis` (several machines, also Valkey)
        kind: BackendKind = "sqlite; memory in the library",
        /// Where it is: a file for `multiprocess` and `sqlite`,
        /// `redis://[USER:PASSWORD@]HOST[:PORT][/DB]` or `rediss://` for `redis`
        dsn: String = "in the state directory",
        /// What to do while the store does not answer: `local` (go on with this process's share of
        /// the limits) or `refuse` (send nothing)
        on_store_failure: OnStoreFailure = "local",
        /// With `local`: the share of the limits, one in so many, of a process that never reached
        /// the store
        assumed_peers: NonZeroU32 = "4",
        /// A group of users that share the state directory, by name or number; without it state is
        /// for its owner alone
        group: String = "none",
    }
}

section! {
    /// The adaptive rate.
    AimdSettings {
        /// Whether rates adapt to throttling
        enabled: bool = "false",
        /// How long answers are counted before a decision, in seconds
        window_s: NonZeroU32 = "60",
        /// The share of 429 answers from which on the rate goes down
        high_429_ratio: f64 = "0.05",
        /// By how many percent it goes up after a quiet window
        increase_step_pct: f64 = "5",
        /// By how many percent it goes down
        decrease_step_pct: f64 = "20",
        /// The lowest share of the configured rate
        min_multiplier: f64 = "0.3",
        /// The highest share of the configured rate
        max_multiplier: f64 = "1.0",
    }
}

section! {
    /// Limits on everything together.
    GlobalSettings {
        /// The most requests in flight at once, over all hosts; `null` or 0 for no bound
        max_inflight: Ceiling = "500",
        /// By how much every window is widened against late arrivals at the origin, in milliseconds
        guard_ms: u64 = "10",
    }
}

section! {
    /// An open on failures that are not in a row.
    RollingSettings {
        /// How many failures
        threshold_failures: NonZeroU32 = "none",
        /// Within how many seconds
        window_s: NonZeroU32 = "none",
        /// For how many seconds it opens
        cooldown_s: NonZeroU32 = "reset_timeout_s",
    }
}

section! {
    /// Probes while half-open.
    TrialSettings {
        /// Probes of metadata requests at once
        metadata: u32 = "1",
        /// Probes of landing requests at once
        landing: u32 = "1",
        /// Probes of artifact requests at once
        artifact: u32 = "2",
    }
}

section! {
    /// What counts as what.
    ClassifySettings {
        /// Statuses that count as failures
        failure: Statuses = "429 and every 5xx",
        /// Statuses that neither count nor reset, beside 4xx that are no failures
        neutral: Statuses = "401, 403, 404, 410, 451",
        /// Whether 408 counts as a failure
        count_408: bool = "false",
    }
}

section! {
    /// A role that counts its own failures.
    RoleBreakerSettings {
        /// Failures in a row that open the breaker for this role alone
        fail_max: NonZeroU32 = "none",
        /// How long its first open lasts, in seconds
        reset_timeout_s: f64 = "none",
        /// Probes of this role at once, instead of `trial_calls`
        trial_calls: u32 = "none",
    }
}

section! {
    /// Roles that count their own failures.
    RoleBreakersSettings {
        @metadata: RoleBreakerSettings,
        @landing: RoleBreakerSettings,
        @artifact: RoleBreakerSettings,
    }
}

section! {
    /// The breaker of one host or resolver.
    BreakerSettings {
        /// Failures in a row that open it
        fail_max: NonZeroU32 = "5",
        /// How long the first open lasts, in seconds; repeated opens double it
        reset_timeout_s: f64 = "60",
        /// The longest that repeated opens lengthen to, in seconds
        reset_ceiling_s: f64 = "900",
        /// The longest block that a server's Retry-After may ask for, in seconds
        retry_after_cap_s: f64 = "86400",
        /// The most that a probe of a half-open breaker is put off, in milliseconds
        jitter_ms: u64 = "150",
        /// A block after a 429 without Retry-After, in seconds
        throttle_block_s: f64 = "none",
        /// Decide and record, but refuse nothing
        shadow: bool = "false",
        @window: RollingSettings,
        @trial_calls: TrialSettings,
        @classify: ClassifySettings,
        @roles: RoleBreakersSettings,
    }
}

section! {
    /// How requests are tried again.
    RetrySettings {
        /// Attempts in all, the first included
        attempts: NonZeroU32 = "4",
        /// The first backoff after a transient fault, in milliseconds; doubles each time
        transient_base_ms: u64 = "200",
        /// The least backoff after a 429, in milliseconds
        throttled_base_ms: u64 = "1000",
        /// The longest backoff of our own, in milliseconds; Retry-After is never cut to it
        ceiling_ms: u64 = "30000",
    }
}

section! {
    /// Connections, timeouts and caps.
    TransportSettings {
        /// The longest that a connection may take, TLS included, in seconds
        connect_timeout_s: f64 = "10",
        /// The longest from a connection to the headers of the answer, in seconds
        header_timeout_s: f64 = "30",
        /// The longest between two chunks of a body, in seconds
        idle_timeout_s: f64 = "30",
        /// The fewest bytes a second that a body may come in; 0 for any
        min_throughput_bytes_s: u64 = "64",
        /// The time over which the throughput is measured, in seconds
        throughput_window_s: f64 = "30",
        /// How long the reader of a stream may pause, in seconds
        consumer_timeout_s: f64 = "60",
        /// The largest body kept in memory, decoded
        max_body_bytes: u64 = "67108864",
        /// The largest file written
        max_file_bytes: u64 = "17179869184",
        /// The most by which a decoded body may exceed what was sent
        max_decode_ratio: NonZeroU32 = "200",
        /// Redirects followed at most
        max_redirects: u32 = "10",
        /// Whether a redirect may lead from https to http
        allow_downgrade: bool = "false",
        /// Whether URLs found in answers may lead to loopback, private and link-local addresses
        allow_internal: bool = "false",
        /// The deadline of a request, in seconds; 0 for none
        deadline_s: f64 = "120",
        /// What has reached the disk before a file appears: `batched` (contents and name, many
        /// files in one go) or `none`
        durability: Durability = "batched",
    }
}

section! {
    /// Who is asking: the User-Agent.
    IdentitySettings {
        /// An e-mail address at which operators can reach you; several services serve you better
        /// with one
        mailto: String = "none",
        /// A page about your project
        url: String = "none",
        /// Who is told the e-mail address: services, or everywhere
        contact: String = "services",
    }
}

section! {
    /// Hosts joined under one operator's limit.
    SiteSettings {
        /// The hosts
        hosts: Hosts = "none",
        @common: SharedSettings,
    }
}

/// The limits of one host.
#[derive(Clone, Debug, Default)]
pub struct HostSettings {
    /// By role.
    pub roles: [RoleSettings; 3],
    /// By kind of request.
    pub kinds: Vec<(String, SharedSettings)>,
}

impl Section for HostSettings {
    fn read(reader: &mut MapReader<'_>) -> Self {
        let roles = [
            reader.section("metadata"),
            reader.section("landing"),
            reader.section("artifact"),
        ];
        Self {
            roles,
            kinds: reader
                .named("kinds")
                .into_iter()
                .map(|(name, _, kind)| (name, kind))
                .collect(),
        }
    }
}

impl Layer for HostSettings {
    fn over(self, lower: Self) -> Self {
        Self {
            roles: self.roles.over(lower.roles),
            kinds: self.kinds.over(lower.kinds),
        }
    }
}

impl Layer for [RoleSettings; 3] {
    fn over(self, lower: Self) -> Self {
        let mut lower = lower.into_iter();
        self.map(|upper| upper.over(lower.next().unwrap_or_default()))
    }
}

/// Named groups: those of the upper layer come over their namesakes.
impl<K: PartialEq, T: Layer> Layer for Vec<(K, T)> {
    fn over(self, mut lower: Self) -> Self {
        for (key, upper) in self {
            match lower.iter().position(|(known, _)| *known == key) {
                Some(place) => {
                    let (_, below) = lower.remove(place);
                    lower.insert(place, (key, upper.over(below)));
                }
                None => lower.push((key, upper)),
            }
        }
        lower
    }
}

/// Everything that can be written.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `limits.defaults`
    pub defaults: [RoleSettings; 3],
    /// `limits.hosts`
    pub hosts: Vec<(Host, HostSettings)>,
    /// `limits.backend`
    pub backend: BackendSettings,
    /// `limits.aimd`
    pub aimd: AimdSettings,
    /// `limits.global`
    pub global: GlobalSettings,
    /// `breakers.defaults`
    pub breaker_defaults: BreakerSettings,
    /// `breakers.hosts`
    pub breaker_hosts: Vec<(Host, BreakerSettings)>,
    /// `breakers.resolvers`
    pub breaker_resolvers: Vec<(String, BreakerSettings)>,
    /// `breakers.cooldown_store`
    pub cooldown_store: BackendSettings,
    /// `sites`
    pub sites: Vec<(String, SiteSettings)>,
    /// `retry`
    pub retry: RetrySettings,
    /// `transport`
    pub transport: TransportSettings,
    /// `identity`
    pub identity: IdentitySettings,
    /// `telemetry`
    pub telemetry: TelemetrySettings,
    /// `resolvers`
    pub resolvers: ResolverSettings,
    /// `limits.services`
    pub services: Vec<(String, SharedSettings)>,
    /// What is not wrong and yet worth a word to the user.
    pub warnings: Vec<Problem>,
}

impl Layer for Settings {
    fn over(self, lower: Self) -> Self {
        Self {
            defaults: self.defaults.over(lower.defaults),
            hosts: self.hosts.over(lower.hosts),
            backend: self.backend.over(lower.backend),
            aimd: self.aimd.over(lower.aimd),
            global: self.global.over(lower.global),
            breaker_defaults: self.breaker_defaults.over(lower.breaker_defaults),
            breaker_hosts: self.breaker_hosts.over(lower.breaker_hosts),
            breaker_resolvers: self.breaker_resolvers.over(lower.breaker_resolvers),
            cooldown_store: self.cooldown_store.over(lower.cooldown_store),
            sites: self.sites.over(lower.sites),
            retry: self.retry.over(lower.retry),
            transport: self.transport.over(lower.transport),
            identity: self.identity.over(lower.identity),
            telemetry: self.telemetry.over(lower.telemetry),
            resolvers: self.resolvers.over(lower.resolvers),
            services: self.services.over(lower.services),
            warnings: self.warnings.into_iter().chain(lower.warnings).collect(),
        }
    }
}

/// The roles of `limits.defaults`.
#[derive(Clone, Debug, Default)]
struct DefaultRoles([RoleSettings; 3]);

impl Section for DefaultRoles {
    fn read(reader: &mut MapReader<'_>) -> Self {
        Self([
            reader.section("metadata"),
            reader.section("landing"),
            reader.section("artifact"),
        ])
    }
}

/// The keys of a whole configuration file.
impl Section for Settings {
    fn read(reader: &mut MapReader<'_>) -> Self {
        version(reader);
        let limits: LimitsPart = reader.section("limits");
        let breakers: BreakersPart = reader.section("breakers");
        Self {
            sites: reader
                .named("sites")
                .into_iter()
                .map(|(name, _, site)| (name, site))
                .collect(),
            retry: reader.section("retry"),
            transport: reader.section("transport"),
            identity: reader.section("identity"),
            telemetry: reader.section("telemetry"),
            resolvers: reader.section("resolvers"),
            ..limits.0.over(breakers.0)
        }
    }
}

/// The `limits` section, which may also stand in a file of its own.
#[derive(Default)]
pub(crate) struct LimitsPart(pub(crate) Settings);

impl Section for LimitsPart {
    fn read(reader: &mut MapReader<'_>) -> Self {
        version(reader);
        let DefaultRoles(defaults) = reader.section("defaults");
        let hosts = reader.hosts("hosts");
        let (backend, global) = (reader.section("backend"), reader.section("global"));
        let services = reader
            .named("services")
            .into_iter()
            .map(|(name, _, budget)| (name, budget))
            .collect();
        Self(Settings {
            defaults,
            hosts,
            backend,
            aimd: reader.section("aimd"),
            global,
            services,
            ..Settings::default()
        })
    }
}

/// The `breakers` section, which may also stand in a file of its own.
#[derive(Default)]
pub(crate) struct BreakersPart(pub(crate) Settings);

impl Section for BreakersPart {
    fn read(reader: &mut MapReader<'_>) -> Self {
        version(reader);
        let resolvers: Vec<(String, Source, BreakerSettings)> = reader.named("resolvers");
        // Seed 000 has another name for them.
        let overrides: Vec<(String, Source, BreakerSettings)> = reader.named("resolver_overrides");
        let named = |list: Vec<(String, Source, BreakerSettings)>| {
            list.into_iter()
                .map(|(name, _, breaker)| (name, breaker))
                .collect::<Vec<_>>()
        };
        Self(Settings {
            breaker_defaults: reader.section("defaults"),
            breaker_hosts: reader.hosts("hosts"),
            breaker_resolvers: named(resolvers).over(named(overrides)),
            cooldown_store: reader.section_or_word("cooldown_store", "kind"),
            ..Settings::default()
        })
    }
}

/// Takes `version`, which must be 1 where it is written.
fn version(reader: &mut MapReader<'_>) {
    if let Some(version) = reader.take::<u64>("version")
        && version.value != 1
    {
        let message = format!(
            "version {} is not known; this program reads version 1",
            version.value
        );
        reader.complain("version", version.source, message, None);
    }
}
