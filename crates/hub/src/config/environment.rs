//! Configuration from environment variables.
//!
//! `DOCSTOKG_RLIMIT__HOST__ROLE=rates:30/SECOND,max_delay_ms:150`. Shells cannot export dots and
//! hyphens, so `_` may stand for them; such a name is matched against the hosts that are known by
//! then, and must match exactly one.

use std::path::PathBuf;

use docstokg_policy::host::Host;
use docstokg_policy::role::Role;

use super::node::Node;
use super::problem::{Problem, Source, nearest};
use super::reader::read;
use super::settings::{BackendSettings, GlobalSettings, HostSettings, IdentitySettings, Settings};

/// Every variable that is read, with what it is for.
pub const VARIABLES: [(&str, &str); 10] = [
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
    ("DOCSTOKG_RLIMIT_BACKEND", "`limits.backend.kind`"),
    ("DOCSTOKG_RLIMIT_DSN", "`limits.backend.dsn`"),
    ("DOCSTOKG_MAX_INFLIGHT", "`limits.global.max_inflight`"),
    ("DOCSTOKG_MAILTO", "`identity.mailto`"),
    (
        "DOCSTOKG_STATE_DIR",
        "Where state is kept, where `--state-dir` names no directory",
    ),
];

/// What every variable of the program begins with.
const PREFIX: &str = "DOCSTOKG_";
const OVERRIDE: &str = "DOCSTOKG_RLIMIT__";
const BREAKER: &str = "DOCSTOKG_BREAKER__";
/// What variables for tests of the program begin with: they are read elsewhere.
const FOR_TESTS: &str = "DOCSTOKG_TEST_";

/// The variables that matter, sorted by what they do.
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

/// Picks out the variables that matter. Empty ones count as unset.
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
                environment.overrides.push((name.clone(), value.clone()))
            }
            _ if name.starts_with(BREAKER) => environment
                .breaker_overrides
                .push((name.clone(), value.clone())),
            _ => match VARIABLES.iter().find(|(known, _)| known == name) {
                Some((known, _)) => environment.values.push((known, value.clone())),
                None if name.starts_with(PREFIX) && !name.starts_with(FOR_TESTS) => {
                    environment.unknown.push(name.clone())
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
    /// Reads the variables as a layer over `below`, whose hosts are the known ones.
    pub(crate) fn settings(&self, below: &Settings, problems: &mut Vec<Problem>) -> Settings {
        let mut settings = Settings::default();
        for (name, value) in &self.overrides {
            let source = Source::Environment(name.as_str().into());
            if let Some((host, role)) = host_and_role(name, below, &source, problems) {
                let node = Node::nested(&[role.as_str()], Node::pairs(value, &source, problems));
                let section =
                    read::<HostSettings>(&format!("limits.hosts.{host}"), node, &[], problems);
                settings.hosts.push((host, section));
            }
        }
        for (name, value) in &self.breaker_overrides {
            let source = Source::Environment(name.as_str().into());
            let host = name.strip_prefix(BREAKER).unwrap_or(name);
            if let Some(host) = known_host(host, below, &source, problems) {
                let breaker = super::flags::breaker(
                    &format!("breakers.hosts.{host}"),
                    value,
                    &source,
                    problems,
                );
                settings.breaker_hosts.push((host, breaker));
            }
        }
        settings.warnings = self.unknown.iter().map(|name| unknown(name)).collect();
        for (name, value) in &self.values {
            let source = Source::Environment((*name).into());
            let leaf = |key: &str| Node::nested(&[key], Node::text(value, &source));
            match *name {
                "DOCSTOKG_RLIMIT_BACKEND" => {
                    settings.backend.kind =
                        read::<BackendSettings>("limits.backend", leaf("kind"), &[], problems).kind
                }
                "DOCSTOKG_RLIMIT_DSN" => {
                    settings.backend.dsn =
                        read::<BackendSettings>("limits.backend", leaf("dsn"), &[], problems).dsn
                }
                "DOCSTOKG_MAX_INFLIGHT" => {
                    settings.global =
                        read::<GlobalSettings>("limits.global", leaf("max_inflight"), &[], problems)
                }
                "DOCSTOKG_MAILTO" => {
                    settings.identity =
                        read::<IdentitySettings>("identity", leaf("mailto"), &[], problems)
                }
                _ => {}
            }
        }
        settings
    }
}

/// Reads the host and role out of a variable's name.
fn host_and_role(
    name: &str,
    below: &Settings,
    source: &Source,
    problems: &mut Vec<Problem>,
) -> Option<(Host, Role)> {
    let mut complain = |message: String, suggestion: Option<String>| {
        problems.push(Problem {
            source: source.clone(),
            key: String::new(),
            message,
            suggestion,
        });
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

/// Says that a variable is not known, and which one may have been meant.
fn unknown(name: &str) -> Problem {
    let known = VARIABLES.iter().map(|(known, _)| *known);
    let message = "this variable is not known and has no effect".to_owned();
    Problem {
        source: Source::Environment(name.into()),
        key: String::new(),
        message,
        suggestion: nearest(name, known),
    }
}

/// Reads a host out of a variable's name, in which `_` may stand for what shells cannot export.
fn known_host(
    host: &str,
    below: &Settings,
    source: &Source,
    problems: &mut Vec<Problem>,
) -> Option<Host> {
    let mut complain = |message: String, suggestion: Option<String>| {
        problems.push(Problem {
            source: source.clone(),
            key: String::new(),
            message,
            suggestion,
        });
    };
    if !host.contains('_') {
        return match Host::parse(host) {
            Ok(host) => Some(host),
            Err(error) => {
                complain(error.to_string(), None);
                None
            }
        };
    }
    let spelled = |host: &Host| host.as_str().replace(['.', '-', ':'], "_");
    let wanted = host.to_ascii_lowercase();
    let known: Vec<&Host> = below
        .hosts
        .iter()
        .map(|(host, _)| host)
        .chain(below.breaker_hosts.iter().map(|(host, _)| host))
        .collect();
    let mut matches: Vec<&Host> = known
        .iter()
        .copied()
        .filter(|host| spelled(host) == wanted)
        .collect();
    matches.sort();
    matches.dedup();
    match matches.as_slice() {
        [host] => Some((*host).clone()),
        [] => {
            let close = nearest(
                &wanted,
                known
                    .iter()
                    .map(|host| spelled(host))
                    .collect::<Vec<_>>()
                    .iter()
                    .map(String::as_str),
            );
            complain(
                format!(
                    "no known host is spelled '{host}' with '_' for '.' and '-'; name it in the config file first"
                ),
                close,
            );
            None
        }
        several => {
            let names: Vec<&str> = several.iter().map(|host| host.as_str()).collect();
            complain(
                format!(
                    "'{host}' may mean {}; use the config file or --rate instead",
                    names.join(" or ")
                ),
                None,
            );
            None
        }
    }
}
