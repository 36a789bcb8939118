//! The keys of the `breakers` section.

use std::num::NonZeroU32;

use docstokg_config::document::VersionKey;
use docstokg_config::section::{closed_schema, merge};
use docstokg_config::{
    ByName, ConfigKey, MapReader, NamedSections, Section, Setting, ValueSource, section,
};
use serde_json::{Map, Value as Json, json};

use super::limits::{BackendSettings, ByHost};
use crate::config::values::StatusList;
use crate::config::words::BackendKind;

section! {
    /// Keys of [`RollingWindow`](docstokg_policy::breaker::RollingWindow): a breaker opens on
    /// failures that are not in a row.
    RollingSettings {
        /// The number of failures that open the breaker
        threshold_failures: NonZeroU32 => "none",
        /// The time within which the failures count, in seconds
        window_s: NonZeroU32 => "none",
        /// The time for which the breaker opens, in seconds, unless a 429 declares a time or limits
        /// are learned
        cooldown_s: NonZeroU32 => "reset_timeout_s",
    }
}

section! {
    /// The number of probes at once while a breaker is half-open.
    TrialSettings {
        /// Probes of metadata requests at once
        metadata: NonZeroU32 = 1,
        /// Probes of landing requests at once
        landing: NonZeroU32 = 1,
        /// Probes of artifact requests at once
        artifact: NonZeroU32 = 2,
    }
}

section! {
    /// The meaning of statuses for a breaker, resolved to a
    /// [`Classifier`](docstokg_policy::classify::Classifier).
    ClassifySettings {
        /// Statuses that count as failures; the default of `neutral` leaves them out
        failure: StatusList => "429 and every 5xx",
        /// Statuses that count neither as failures nor as successes; other 4xx that are not
        /// failures are neutral as well
        neutral: StatusList = [401, 403, 404, 410, 451],
        /// Counts 408 as a failure
        count_408: bool = false,
        /// Statuses by which this host reports too many requests, beside 429
        throttled: StatusList => "none",
        /// Successful responses whose headers take longer count as failures of the host, in
        /// milliseconds
        slow_call_ms: u64 => "none",
    }
}

section! {
    /// A role that counts its own failures.
    RoleBreakerSettings {
        /// Failures in a row that open the breaker for this role alone
        fail_max: NonZeroU32 => "none",
        /// The duration of the first open, in seconds
        reset_timeout_s: f64 => "none",
        /// Probes of this role at once, instead of `trial_calls`
        trial_calls: NonZeroU32 => "none",
    }
}

section! {
    /// The [`RoleBreakerSettings`] of roles that count their own failures.
    RoleBreakersSettings {
        @metadata: RoleBreakerSettings,
        @landing: RoleBreakerSettings,
        @artifact: RoleBreakerSettings,
    }
}

section! {
    /// The breaker of a resolver, as the policy of a host or the defaults set it.
    ResolverOverrideSettings {
        /// Failures in a row that open the breaker of the resolver
        fail_max: NonZeroU32 => "none",
        /// The duration of the first open, in seconds
        reset_timeout_s: f64 => "none",
        /// The longest block that a server's Retry-After may cause, in seconds
        retry_after_cap_s: f64 => "none",
    }
}

impl ResolverOverrideSettings {
    /// Converts these keys to the [`BreakerSettings`] of a resolver.
    pub(crate) fn breaker(&self) -> BreakerSettings {
        BreakerSettings {
            fail_max: self.fail_max.clone(),
            reset_timeout_s: self.reset_timeout_s.clone(),
            retry_after_cap_s: self.retry_after_cap_s.clone(),
            ..BreakerSettings::default()
        }
    }

    /// Returns the [`ValueSource`] of these keys.
    pub(crate) fn source(&self) -> ValueSource {
        let lengths = [&self.reset_timeout_s, &self.retry_after_cap_s];
        let of_length = lengths.into_iter().flatten().map(|set| &set.source);
        let mut sources = self.fail_max.iter().map(|set| &set.source).chain(of_length);
        sources.next().cloned().unwrap_or(ValueSource::Default)
    }
}

section! {
    /// The breaker of one host or resolver.
    BreakerSettings {
        /// Failures in a row that open the breaker
        fail_max: NonZeroU32 = 5,
        /// The duration of the first open, in seconds; repeated opens double it, unless
        /// early_probes is false
        reset_timeout_s: f64 = 60,
        /// Probe an outage (5xx, connection faults) before its reset ends: after a fifth of the
        /// time that it has lasted, at least 1 s
        early_probes: bool = true,
        /// The longest duration of repeated opens, in seconds
        reset_ceiling_s: f64 = 900,
        /// The longest block that a server's Retry-After may cause, in seconds
        retry_after_cap_s: f64 = 86_400,
        /// The longest random delay of a probe of a half-open breaker, in milliseconds; 1000 at
        /// most
        jitter_ms: u64 = 150,
        /// A block after a 429 without Retry-After, in seconds
        throttle_block_s: f64 => "none",
        /// Decide and record, but refuse nothing
        shadow: bool = false,
        @window: RollingSettings,
        @trial_calls: TrialSettings,
        @classify: ClassifySettings,
        @roles: RoleBreakersSettings,
        @resolver_overrides: NamedSections<ByName, ResolverOverrideSettings>,
    }
}

/// The `breakers` section: circuit breakers, and the store of their state.
#[derive(Clone, Debug, Default)]
pub struct BreakersSettings {
    /// The [`BreakerSettings`] of hosts and resolvers without an entry.
    pub defaults: BreakerSettings,
    /// The breakers of hosts.
    pub hosts: NamedSections<ByHost, BreakerSettings>,
    /// The breakers of resolvers.
    pub resolvers: NamedSections<ByName, BreakerSettings>,
    /// The store of breakers, if it differs from the store of limits.
    pub cooldown_store: BackendSettings,
}

/// Rows of the documentation, each of which represents a group of keys.
const GROUPS: [(&str, &str, &str, &str); 3] = [
    (
        "hosts.HOST",
        "group",
        "`breakers.defaults`",
        "The same keys as `breakers.defaults`, for one host",
    ),
    (
        "resolvers.NAME",
        "group",
        "`breakers.defaults`",
        "The same keys as `breakers.defaults`, for one resolver; `resolver_overrides` is another name for `resolvers`",
    ),
    (
        "cooldown_store",
        "word or group",
        "`limits.backend`",
        "Where breakers are kept; its kind may be written as one word. One store given, here or as `limits.backend`, serves both",
    ),
];

impl Section for BreakersSettings {
    fn read(reader: &mut MapReader<'_>) -> Self {
        VersionKey::read(reader);
        let resolvers: NamedSections<ByName, _> = reader.section("resolvers");
        // The project's original specification uses this name for the key.
        let overrides = reader.section("resolver_overrides");
        Self {
            defaults: reader.section("defaults"),
            hosts: reader.section("hosts"),
            resolvers: resolvers.over(overrides),
            cooldown_store: reader.section_or_word("cooldown_store", "kind"),
        }
    }

    fn over(self, lower: Self) -> Self {
        Self {
            defaults: self.defaults.over(lower.defaults),
            hosts: self.hosts.over(lower.hosts),
            resolvers: self.resolvers.over(lower.resolvers),
            cooldown_store: self.cooldown_store.over(lower.cooldown_store),
        }
    }

    /// Returns the default values for hosts and resolvers. The store of breakers has no default: if
    /// it is not set, the store of limits is used.
    fn defaults() -> Self {
        Self {
            defaults: Section::defaults(),
            ..Self::default()
        }
    }

    fn keys(prefix: &str, keys: &mut Vec<ConfigKey>) {
        BreakerSettings::keys(&format!("{prefix}defaults."), keys);
        keys.extend(GROUPS.map(|(name, kind, default, about)| ConfigKey {
            path: format!("{prefix}{name}"),
            kind,
            default: default.to_owned(),
            about,
        }));
        BackendSettings::keys(&format!("{prefix}cooldown_store."), keys);
    }

    fn schema() -> Json {
        type Hosts = NamedSections<ByHost, BreakerSettings>;
        type Resolvers = NamedSections<ByName, BreakerSettings>;
        let mut properties = Map::new();
        merge(&mut properties, VersionKey::schema()["properties"].take());
        let store = json!({ "oneOf": [BackendKind::schema(), BackendSettings::schema()] });
        for (name, schema) in [
            ("defaults", BreakerSettings::schema()),
            ("hosts", Hosts::schema()),
            ("resolvers", Resolvers::schema()),
            ("resolver_overrides", Resolvers::schema()),
            ("cooldown_store", store),
        ] {
            properties.insert(name.to_owned(), schema);
        }
        closed_schema(properties)
    }

    fn show(&self) -> Json {
        json!({
            "defaults": self.defaults.show(),
            "hosts": self.hosts.show(),
            "resolvers": self.resolvers.show(),
            "cooldown_store": self.cooldown_store.show(),
        })
    }
}
