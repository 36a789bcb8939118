//! Configuration from the command line, in the syntax that the seeds of this project set.

use docstokg_policy::host::Host;
use docstokg_policy::role::Role;

use super::node::Node;
use super::problem::{Problem, Source, nearest};
use super::reader::{Aliases, read};
use super::settings::{
    BackendSettings, BreakerSettings, GlobalSettings, HostSettings, Layer, Settings,
    TransportSettings,
};

/// What the command line says, as written.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--rate HOST:ROLE=rates:25/SECOND+10000/HOUR,max_delay_ms:150`
    pub rate: Vec<String>,
    /// `--rate-backend KIND`
    pub rate_backend: Option<String>,
    /// `--rate-dsn DSN`
    pub rate_dsn: Option<String>,
    /// `--max-inflight N`
    pub max_inflight: Option<String>,
    /// `--aimd enabled=true,high_429_ratio=0.08,decrease=25,increase=5`
    pub aimd: Option<String>,
    /// `--breaker
    /// HOST=fail_max:5,reset:60,retry_after_cap:900,window.threshold_failures:3,window.window_s:10,trial_calls.metadata:2,roles.artifact.fail_max:4`
    pub breaker: Vec<String>,
    /// `--breaker-resolver NAME=fail_max:4,reset:45`
    pub breaker_resolver: Vec<String>,
    /// `--deadline SECONDS`
    pub deadline: Option<String>,
}

/// The short names of keys in `--aimd`.
const AIMD_ALIASES: Aliases<3> = [
    ("increase", "increase_step_pct"),
    ("decrease", "decrease_step_pct"),
    ("window", "window_s"),
];

/// The short names of keys in `--breaker`.
const BREAKER_ALIASES: Aliases<5> = [
    ("reset", "reset_timeout_s"),
    ("reset_ceiling", "reset_ceiling_s"),
    ("retry_after_cap", "retry_after_cap_s"),
    ("throttle_block", "throttle_block_s"),
    ("jitter", "jitter_ms"),
];

/// Reads the flags as a layer.
pub(crate) fn settings(flags: &Flags, problems: &mut Vec<Problem>) -> Settings {
    let mut settings = Settings::default();
    for text in &flags.rate {
        if let Some(host) = rate(text, problems) {
            settings.hosts = vec![host].over(settings.hosts);
        }
    }
    for text in &flags.breaker {
        let source = Source::Flag("--breaker".into());
        if let Some((name, pairs)) = assignment(text, "HOST=fail_max:5,reset:60", &source, problems)
        {
            match Host::parse(name) {
                Ok(host) => {
                    let breaker =
                        breaker(&format!("breakers.hosts.{host}"), pairs, &source, problems);
                    settings.breaker_hosts = vec![(host, breaker)].over(settings.breaker_hosts);
                }
                Err(error) => problems.push(problem(&source, error.to_string())),
            }
        }
    }
    for text in &flags.breaker_resolver {
        let source = Source::Flag("--breaker-resolver".into());
        if let Some((name, pairs)) = assignment(text, "NAME=fail_max:4,reset:45", &source, problems)
        {
            let breaker = breaker(
                &format!("breakers.resolvers.{name}"),
                pairs,
                &source,
                problems,
            );
            settings.breaker_resolvers =
                vec![(name.to_owned(), breaker)].over(settings.breaker_resolvers);
        }
    }
    let leaf = |flag: &str, key: &str, text: &Option<String>| {
        let source = Source::Flag(flag.into());
        text.as_ref()
            .map(|text| Node::nested(&[key], Node::text(text, &source)))
    };
    if let Some(node) = leaf("--rate-backend", "kind", &flags.rate_backend) {
        settings.backend = read::<BackendSettings>("limits.backend", node, &[], problems);
    }
    if let Some(node) = leaf("--rate-dsn", "dsn", &flags.rate_dsn) {
        settings.backend.dsn = read::<BackendSettings>("limits.backend", node, &[], problems).dsn;
    }
    if let Some(node) = leaf("--max-inflight", "max_inflight", &flags.max_inflight) {
        settings.global = read::<GlobalSettings>("limits.global", node, &[], problems);
    }
    if let Some(node) = leaf("--deadline", "deadline_s", &flags.deadline) {
        settings.transport = read::<TransportSettings>("transport", node, &[], problems);
    }
    if let Some(text) = &flags.aimd {
        let node = Node::pairs(text, &Source::Flag("--aimd".into()), problems);
        settings.aimd = read("limits.aimd", node, &AIMD_ALIASES, problems);
    }
    settings
}

fn rate(text: &str, problems: &mut Vec<Problem>) -> Option<(Host, HostSettings)> {
    let source = Source::Flag("--rate".into());
    let (target, pairs) = assignment(
        text,
        "HOST:ROLE=rates:25/SECOND,max_delay_ms:150",
        &source,
        problems,
    )?;
    let Some((host, role)) = target.rsplit_once(':') else {
        problems.push(problem(&source, format!("'{target}' is not HOST:ROLE")));
        return None;
    };
    let role = match role.parse::<Role>() {
        Ok(role) => role,
        Err(error) => {
            let suggestion = nearest(role, Role::ALL.map(Role::as_str));
            problems.push(Problem {
                suggestion,
                ..problem(&source, error.to_string())
            });
            return None;
        }
    };
    match Host::parse(host) {
        Ok(host) => {
            let node = Node::nested(&[role.as_str()], Node::pairs(pairs, &source, problems));
            let limits = read::<HostSettings>(&format!("limits.hosts.{host}"), node, &[], problems);
            Some((host, limits))
        }
        Err(error) => {
            problems.push(problem(&source, error.to_string()));
            None
        }
    }
}

pub(super) fn breaker(
    path: &str,
    pairs: &str,
    source: &Source,
    problems: &mut Vec<Problem>,
) -> BreakerSettings {
    let node = Node::pairs(pairs, source, problems);
    read(path, node, &BREAKER_ALIASES, problems)
}

fn assignment<'a>(
    text: &'a str,
    form: &str,
    source: &Source,
    problems: &mut Vec<Problem>,
) -> Option<(&'a str, &'a str)> {
    let split = text
        .split_once('=')
        .filter(|(name, _)| !name.trim().is_empty());
    if split.is_none() {
        problems.push(problem(
            source,
            format!("'{text}' is not of the form {form}"),
        ));
    }
    split.map(|(name, pairs)| (name.trim(), pairs))
}

fn problem(source: &Source, message: String) -> Problem {
    Problem {
        source: source.clone(),
        key: String::new(),
        message,
        suggestion: None,
    }
}
