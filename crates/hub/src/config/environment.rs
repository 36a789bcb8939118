//! Configuration from environment variables.
//!
//! An example is `DOCSTOKG_RLIMIT__HOST__ROLE=rates:30/SECOND,max_delay_ms:150`. Shells cannot
//! export names with dots and hyphens, so `_` may replace these in the host. Such a name must match
//! exactly one of the hosts that lower layers of the configuration name.

use std::path::PathBuf;

use docstokg_config::{ConfigNode, ConfigProblem, Section, ValueSource, document, nearest, read};
use docstokg_policy::host::Host;
use docstokg_policy::role::Role;

use super::settings::{ConfigWarnings, HostSettings, Settings};
use super::values::host_name;

/// All variables that the hub reads, with their purpose.
pub const VARIABLES: [(&str, &str); 15] = [
    (
        "DOCSTOKG_CONFIG",
        "The configuration file, where `--config` names none",
    ),
    (
        "DOCSTOKG_RLIMITS_YAML",
        "A file with the `limits` section alone",
    ),
    (
        "DOCSTOKG_BREAKERS_YAML",
        "A file with the `breakers` section alone",
    ),
    (
        "DOCSTOKG_RLIMIT__HOST__ROLE",
        "Limits of one host and role: `rates:30/SECOND+12000/HOUR,max_delay_ms:150,count_head:false`",
    ),
    (
        "DOCSTOKG_BREAKER__HOST",
        "The breaker of one host: `fail_max:5,reset:60`, keys as in `--breaker`",
    ),
    (
        "DOCSTOKG_BREAKER_RESOLVER__NAME",
        "The breaker of one resolver: `fail_max:4,reset:45`, keys as in `--breaker-resolver`",
    ),
    (
        "DOCSTOKG_BREAKER_DEFAULTS",
        "`breakers.defaults`: `fail_max:5,reset:60`, keys as in `--breaker`",
    ),
    ("DOCSTOKG_COOLDOWN_STORE", "`breakers.cooldown_store.kind`"),
    (
        "DOCSTOKG_COOLDOWN_STORE_DSN",
        "`breakers.cooldown_store.dsn`",
    ),
    ("DOCSTOKG_RLIMIT_BACKEND", "`limits.backend.kind`"),
    ("DOCSTOKG_RLIMIT_DSN", "`limits.backend.dsn`"),
    ("DOCSTOKG_MAX_INFLIGHT", "`limits.global.max_inflight`"),
    ("DOCSTOKG_MAILTO", "`identity.mailto`"),
    (
        "DOCSTOKG_STATE_DIR",
        "Where state is kept, where `--state-dir` names no directory",
    ),
    (
        "DOCSTOKG_GATEWAY_TOKEN",
        "The token of `docstokg serve`, where `--token-file` names no file",
    ),
];

/// The prefix of every variable of the program.
const PREFIX: &str = "DOCSTOKG_";
const OVERRIDE: &str = "DOCSTOKG_RLIMIT__";
const BREAKER: &str = "DOCSTOKG_BREAKER__";
const BREAKER_RESOLVER: &str = "DOCSTOKG_BREAKER_RESOLVER__";
const BREAKER_DEFAULTS: &str = "DOCSTOKG_BREAKER_DEFAULTS";
/// The prefix of variables for tests of the program, which other code reads.
const FOR_TESTS: &str = "DOCSTOKG_TEST_";

/// The variables that the hub reads, sorted by their effect.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    pub(crate) config: Option<PathBuf>,
    pub(crate) limits: Option<PathBuf>,
    pub(crate) breakers: Option<PathBuf>,
    overrides: Vec<(String, String)>,
    breaker_overrides: Vec<(String, String)>,
    values: Vec<(&'static str, String)>,
    unknown: Vec<String>,
}

/// Selects the variables that the hub reads, and sorts them by their effect. Empty variables count
/// as unset.
pub(crate) fn split(variables: &[(String, String)]) -> Environment {
    let mut environment = Environment::default();
    for (name, value) in variables
        .iter()
        .filter(|(_, value)| !value.trim().is_empty())
    {
        match name.as_str() {
            "DOCSTOKG_CONFIG" => environment.config = Some(value.into()),
            "DOCSTOKG_RLIMITS_YAML" => environment.limits = Some(value.into()),
            "DOCSTOKG_BREAKERS_YAML" => environment.breakers = Some(value.into()),
            _ if name.starts_with(OVERRIDE) => {
                environment.overrides.push((name.clone(), value.clone()));
            }
            _ if name.starts_with(BREAKER)
                || name.starts_with(BREAKER_RESOLVER)
                || name == BREAKER_DEFAULTS =>
            {
                let breaker = (name.clone(), value.clone());
                environment.breaker_overrides.push(breaker);
            }
            _ => match VARIABLES.iter().find(|(known, _)| known == name) {
                Some((known, _)) => environment.values.push((known, value.clone())),
                None if name.starts_with(PREFIX) && !name.starts_with(FOR_TESTS) => {
                    environment.unknown.push(name.clone());
                }
                None => {}
            },
        }
    }
    environment.overrides.sort();
    environment.breaker_overrides.sort();
    environment.unknown.sort();
    environment
}

impl Environment {
    /// Reads the variables as a layer of [`Settings`] above `below`. The hosts in `below` are those
    /// that a name with `_` may match.
    pub(crate) fn settings(&self, below: &Settings, problems: &mut Vec<ConfigProblem>) -> Settings {
        let mut settings = Settings::default();
        for (name, value) in &self.overrides {
            let source = ValueSource::Environment(name.as_str().into());
            if let Some((host, role)) = host_and_role(name, below, &source, problems) {
                let node = ConfigNode::nested(
                    &[role.as_str()],
                    ConfigNode::pairs(value, &source, problems),
                );
                let section =
                    read::<HostSettings>(&format!("limits.hosts.{host}"), node, &[], problems);
                settings.limits.hosts.0.push((host, section));
            }
        }
        for (name, value) in &self.breaker_overrides {
            let source = ValueSource::Environment(name.as_str().into());
            let breakers = &mut settings.breakers;
            let breaker = |path: &str, problems: &mut Vec<ConfigProblem>| {
                super::flags::breaker(&format!("breakers.{path}"), value, &source, problems)
            };
            if name == BREAKER_DEFAULTS {
                breakers.defaults = breaker("defaults", problems);
            } else if let Some(resolver) = name.strip_prefix(BREAKER_RESOLVER) {
                let own = breaker(&format!("resolvers.{resolver}"), problems);
                breakers.resolvers.0.push((resolver.to_owned(), own));
            } else if let Some(host) = name.strip_prefix(BREAKER)
                && let Some(host) = known_host(host, below, &source, problems)
            {
                let own = breaker(&format!("hosts.{host}"), problems);
                breakers.hosts.0.push((host, own));
            }
        }
        let known = || VARIABLES.iter().map(|(known, _)| *known);
        let unknown = self
            .unknown
            .iter()
            .map(|name| unknown_variable(name, known()));
        settings.warnings = ConfigWarnings(unknown.collect());
        for (name, value) in &self.values {
            let source = ValueSource::Environment((*name).into());
            let path: &[&str] = match *name {
                "DOCSTOKG_RLIMIT_BACKEND" => &["limits", "backend", "kind"],
                "DOCSTOKG_RLIMIT_DSN" => &["limits", "backend", "dsn"],
                "DOCSTOKG_COOLDOWN_STORE" => &["breakers", "cooldown_store", "kind"],
                "DOCSTOKG_COOLDOWN_STORE_DSN" => &["breakers", "cooldown_store", "dsn"],
                "DOCSTOKG_MAX_INFLIGHT" => &["limits", "global", "max_inflight"],
                "DOCSTOKG_MAILTO" => &["identity", "mailto"],
                _ => continue,
            };
            let node = ConfigNode::nested(path, ConfigNode::text(value, &source));
            settings = document::read::<Settings>(node, problems).over(settings);
        }
        settings
    }
}

/// Parses the [`Host`] and [`Role`] in the name of a variable.
fn host_and_role(
    name: &str,
    below: &Settings,
    source: &ValueSource,
    problems: &mut Vec<ConfigProblem>,
) -> Option<(Host, Role)> {
    let mut complain = |message: String, suggestion: Option<String>| {
        problems.push(ConfigProblem::without_key(source, message).suggesting(suggestion));
    };
    let rest = name.strip_prefix(OVERRIDE).unwrap_or(name);
    let Some((host, role)) = rest.rsplit_once("__") else {
        complain("expected DOCSTOKG_RLIMIT__HOST__ROLE".to_owned(), None);
        return None;
    };
    let role = match role.parse::<Role>() {
        Ok(role) => role,
        Err(error) => {
            complain(
                error.to_string(),
                nearest(role, Role::ALL.map(Role::as_str)),
            );
            return None;
        }
    };
    known_host(host, below, source, problems).map(|host| (host, role))
}

/// Returns a [`ConfigProblem`] for an unknown variable, which suggests the nearest known name.
pub fn unknown_variable<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> ConfigProblem {
    let source = ValueSource::Environment(name.into());
    ConfigProblem::without_key(&source, "this variable is not known and has no effect")
        .suggesting(nearest(name, known))
}

/// Parses a [`Host`] in the name of a variable, in which `_` may replace characters that shells
/// cannot export.
fn known_host(
    text: &str,
    below: &Settings,
    source: &ValueSource,
    problems: &mut Vec<ConfigProblem>,
) -> Option<Host> {
    let found = if text.contains('_') {
        host_spelled(text, below, source)
    } else {
        host_name(text).map_err(|error| ConfigProblem::without_key(source, error))
    };
    found.map_err(|problem| problems.push(problem)).ok()
}

/// Finds the only known host with this spelling, in which `_` replaces characters that shells
/// cannot export.
///
/// # Errors
/// Returns a [`ConfigProblem`] if no known host or more than one has this spelling.
fn host_spelled(text: &str, below: &Settings, source: &ValueSource) -> Result<Host, ConfigProblem> {
    let spelling = |host: &Host| host.as_str().replace(['.', '-', ':'], "_");
    let wanted = text.to_ascii_lowercase();
    let with_limits = below.limits.hosts.iter().map(|(host, _)| host);
    let with_breaker = below.breakers.hosts.iter().map(|(host, _)| host);
    let mut known: Vec<(String, &Host)> = with_limits
        .chain(with_breaker)
        .map(|host| (spelling(host), host))
        .collect();
    known.sort();
    known.dedup();
    let matches: Vec<&Host> = known
        .iter()
        .filter(|(spelled, _)| *spelled == wanted)
        .map(|(_, host)| *host)
        .collect();
    match matches.as_slice() {
        [host] => Ok((*host).clone()),
        [] => {
            let message = format!(
                "no known host is spelled '{text}' with '_' for '.' and '-'; name it in the config file first"
            );
            let close = nearest(&wanted, known.iter().map(|(spelled, _)| spelled.as_str()));
            Err(ConfigProblem::without_key(source, message).suggesting(close))
        }
        several => {
            let names: Vec<&str> = several.iter().map(|host| host.as_str()).collect();
            let message = format!(
                "'{text}' may mean {}; use the config file or --rate instead",
                names.join(" or ")
            );
            Err(ConfigProblem::without_key(source, message))
        }
    }
}
