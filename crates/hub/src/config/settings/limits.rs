//! The keys of the `limits` section: rates, waits and concurrency, with the store of their state.

use std::num::NonZeroU32;

use docstokg_config::document::VersionKey;
use docstokg_config::section::{closed_schema, default_value};
use docstokg_config::{Ceiling, ConfigKey, MapReader, NamedSections, Naming, Section, section};
use docstokg_policy::host::Host;
use docstokg_policy::role::Role;
use serde_json::Value as Json;

use crate::config::values::{Dsn, HOST_PATTERN, LearnSetting, RateList, host_name};
use crate::config::words::{
    BackendKind, Concurrency, OnStoreFailure, PacingWord, ResetWord, TrustWord,
};

section! {
    /// The limits of one host and role.
    RoleSettings {
        /// Windows that apply together: `10/SECOND`, `1/3SECOND`, `5000/HOUR`, joined by `+` or as
        /// a list; an empty list is no limit
        rates: RateList => "by role",
        /// The longest wait for a rate limit, in milliseconds. `fetch` and calls with this bound
        /// are refused if they would wait longer; a bulk run waits in the queue instead
        max_delay_ms: u64 => "by role",
        /// Counts HEAD requests in the windows
        count_head: bool = false => "false; true in the gateway",
        /// The cost of a request in credits, for quotas that the host declares
        credits: NonZeroU32 => "as its answers say, or 1",
        /// The largest number of requests at once; `null` or 0 for no limit
        max_concurrent: Ceiling => "by role",
        /// The processes that `max_concurrent` applies to: `local` (each process alone) or `shared`
        /// (all processes that share the store)
        concurrency: Concurrency = "local",
        /// The spreading of requests over the windows: `even` (at equal distances, which every
        /// server accepts) or `burst` (as many at once as the windows allow)
        pacing: PacingWord => "even in bulk runs, else burst",
    }
}

section! {
    /// A budget that several roles or hosts share.
    SharedSettings {
        /// Windows that apply together
        rates: RateList => "none",
        /// The largest number of requests at once; `null` or 0 for no limit
        max_concurrent: Ceiling => "none",
        /// The processes that `max_concurrent` applies to: `local` (each process alone) or `shared`
        /// (all processes that share the store)
        concurrency: Concurrency = "local",
        /// The spreading of requests over the windows: `even` (at equal distances, which every
        /// server accepts) or `burst` (as many at once as the windows allow)
        pacing: PacingWord => "even in bulk runs, else burst",
    }
}

section! {
    /// The budget of one kind of request to a host.
    KindSettings {
        ..shared: SharedSettings,
        /// The cost of such a request in credits, for quotas that the host declares
        credits: NonZeroU32 => "that of its role",
    }
}

section! {
    /// The store of the state of limits and breakers.
    BackendSettings {
        /// The store: `memory` (this process only), `multiprocess` (this machine, a mapped file),
        /// `sqlite` (this machine, a database) or `redis` (several machines, also Valkey)
        kind: BackendKind = "memory" => "sqlite; memory in the library",
        /// The location of the store: a file for `multiprocess` and `sqlite`,
        /// `redis://[USER:PASSWORD@]HOST[:PORT][/DB]` or `rediss://` for `redis`
        dsn: Dsn => "in the state directory",
        /// The behaviour while the store does not reply: `local` (continue with this process's
        /// share of the limits) or `refuse` (send nothing)
        on_store_failure: OnStoreFailure = "local",
        /// With `local`: the number of processes assumed to share the limits, for a process that
        /// never reached the store
        assumed_peers: NonZeroU32 = 4,
        /// A group of users that share the state directory, by name or number; without it state is
        /// for its owner alone
        group: String => "none",
    }
}

section! {
    /// The adaptive rate, resolved to an
    /// [`AdaptivePolicy`](docstokg_policy::adaptive::AdaptivePolicy).
    AimdSettings {
        /// Adapts rates to throttling
        enabled: bool = false,
        /// The time over which responses are counted before a decision, in seconds
        window_s: NonZeroU32 = 60,
        /// The share of 429 responses from which on the rate goes down
        high_429_ratio: f64 = 0.05,
        /// The percentage by which the rate goes up after a quiet window
        increase_step_pct: f64 = 5,
        /// The percentage by which the rate goes down
        decrease_step_pct: f64 = 20,
        /// The lowest share of the configured rate
        min_multiplier: f64 = 0.3,
        /// The highest share of the configured rate
        max_multiplier: f64 = 1.0,
    }
}

section! {
    /// Limits for all hosts together.
    GlobalSettings {
        /// The largest number of requests in flight at once, over all hosts; `null` or 0 for no
        /// limit
        max_inflight: Ceiling = 500,
        /// The time by which every window is extended against late arrivals at the origin, in
        /// milliseconds
        guard_ms: u64 = 10,
        /// The longest distance between requests that a learned limit may demand, in seconds
        slowest_learned_s: NonZeroU32 = 60,
    }
}

section! {
    /// The effect of rate headers (`RateLimit`, `X-RateLimit-*` and similar fields).
    HeadersSettings {
        /// The effect of rate headers: `tighten` (stricter limits, and what is left of a quota is
        /// spread evenly until its reset), `raise` (higher rates as well), or `ignore`
        trust: TrustWord = "tighten",
        /// The form of the reset in a header: `auto` (recognised by its size), `seconds` (left) or
        /// `epoch` (since 1970)
        reset: ResetWord = "auto",
    }
}

impl RoleSettings {
    /// Returns the default limits of a [`Role`].
    fn defaults_of(role: Role) -> Self {
        let (rates, max_delay_ms, max_concurrent) = match role {
            Role::Metadata => ("10/SECOND+5000/HOUR", 200, 100),
            Role::Landing => ("5/SECOND+2000/HOUR", 250, 50),
            Role::Artifact => ("2/SECOND+500/HOUR", 2_000, 10),
        };
        Self {
            rates: Some(default_value(rates)),
            max_delay_ms: Some(default_value(max_delay_ms)),
            max_concurrent: Some(default_value(max_concurrent)),
            ..Self::defaults()
        }
    }
}

/// The [`Naming`] of entries by host, with each host in canonical form.
#[derive(Clone, Debug, Default)]
pub struct ByHost;

impl Naming for ByHost {
    type Name = Host;
    const PLACEHOLDER: &'static str = "HOST";
    const NOUN: &'static str = "host";
    const PATTERN: Option<&'static str> = Some(HOST_PATTERN);

    fn name(text: &str) -> Result<Host, String> {
        host_name(text)
    }
}

/// The [`Naming`] of entries by kind of request, as callers name the kinds.
#[derive(Clone, Debug, Default)]
pub struct ByKind;

/// The [`Naming`] of entries by service, as callers name the services.
#[derive(Clone, Debug, Default)]
pub struct ByService;

impl Naming for ByKind {
    type Name = String;
    const PLACEHOLDER: &'static str = "KIND";
    const NOUN: &'static str = "kind";

    fn name(text: &str) -> Result<String, String> {
        Ok(text.to_owned())
    }
}

impl Naming for ByService {
    type Name = String;
    const PLACEHOLDER: &'static str = "SERVICE";
    const NOUN: &'static str = "service";

    fn name(text: &str) -> Result<String, String> {
        Ok(text.to_owned())
    }
}

/// The limits of each role, in the order of [`Role::ALL`].
#[derive(Clone, Debug, Default)]
pub struct RolesSettings(pub [RoleSettings; 3]);

impl RolesSettings {
    /// Returns the [`RoleSettings`] of a role.
    #[must_use]
    pub fn of(&self, role: Role) -> &RoleSettings {
        &self.0[role.index()]
    }
}

impl Section for RolesSettings {
    fn read(reader: &mut MapReader<'_>) -> Self {
        Self(Role::ALL.map(|role| reader.section(role.as_str())))
    }

    fn over(self, lower: Self) -> Self {
        let mut lower = lower.0.into_iter();
        Self(
            self.0
                .map(|upper| upper.over(lower.next().unwrap_or_default())),
        )
    }

    fn defaults() -> Self {
        Self(Role::ALL.map(RoleSettings::defaults_of))
    }

    fn keys(prefix: &str, keys: &mut Vec<ConfigKey>) {
        RoleSettings::keys(&format!("{prefix}ROLE."), keys);
    }

    fn schema() -> Json {
        let roles = Role::ALL.map(|role| (role.as_str().to_owned(), RoleSettings::schema()));
        closed_schema(roles.into_iter().collect())
    }

    /// Shows only the roles that have a setting.
    fn show(&self) -> Json {
        let shown = Role::ALL.map(|role| (role.as_str().to_owned(), self.of(role).show()));
        let set = |(_, json): &(String, Json)| json.as_object().is_some_and(|map| !map.is_empty());
        Json::Object(shown.into_iter().filter(set).collect())
    }
}

section! {
    /// The limits of one host.
    HostSettings {
        ..roles: RolesSettings,
        /// Limits that are learned from refusals: `off`, `tighten` (below the configured ones), or
        /// `up_to: RATE` (a search from 2 per second up to that rate, in place of the default
        /// windows)
        learn: LearnSetting => "limits.learn",
        /// Adapts the rates of the host to throttling, by the numbers of `limits.aimd`; such a host
        /// learns no limits
        aimd: bool => "limits.aimd.enabled",
        @kinds: NamedSections<ByKind, KindSettings>,
        @headers: HeadersSettings,
    }
}

section! {
    /// Rates, waits and concurrency, and the store of their state.
    LimitsSettings {
        ..version: VersionKey,
        /// Limits that are learned from refusals: `off`, `tighten` (below the configured ones), or
        /// `up_to: RATE` (a search from 2 per second up to that rate, in place of the default
        /// windows)
        learn: LearnSetting => "tighten in bulk runs, else off",
        +defaults: RolesSettings,
        +hosts: NamedSections<ByHost, HostSettings>,
        +backend: BackendSettings,
        +aimd: AimdSettings,
        +global: GlobalSettings,
        +services: NamedSections<ByService, SharedSettings>,
        @headers: HeadersSettings,
    }
}
