//! Configuration from the command line, in the syntax of the project's original specifications.

use docstokg_config::reader::{Aliases, read};
use docstokg_config::{
    ConfigNode, ConfigProblem, NamedSections, Section, ValueSource, document, nearest,
};
use docstokg_policy::host::Host;
use docstokg_policy::role::Role;

use super::settings::{BreakerSettings, HostSettings, Settings};
use super::values::host_name;

/// The values of the hub's command-line options, as text.
#[derive(Clone, Debug, Default)]
pub struct CommandLineFlags {
    /// Values of `--rate`, such as `HOST:ROLE=rates:25/SECOND+10000/HOUR,max_delay_ms:150`.
    pub rate: Vec<String>,
    /// The value of `--rate-backend KIND`.
    pub rate_backend: Option<String>,
    /// The value of `--rate-dsn DSN`.
    pub rate_dsn: Option<String>,
    /// The value of `--max-inflight N`.
    pub max_inflight: Option<String>,
    /// The value of `--aimd`, such as `enabled=true,high_429_ratio=0.08,decrease=25,increase=5`.
    pub aimd: Option<String>,
    /// Values of `--breaker`, such as `HOST=fail_max:5,reset:60,retry_after_cap:900`.
    ///
    /// Keys of nested sections have dots: `window.threshold_failures:3`, `trial_calls.metadata:2`,
    /// `roles.artifact.fail_max:4`.
    pub breaker: Vec<String>,
    /// Values of `--breaker-resolver`, such as `NAME=fail_max:4,reset:45`.
    pub breaker_resolver: Vec<String>,
    /// The value of `--deadline SECONDS`.
    pub deadline: Option<String>,
}

/// Short names of keys that `--aimd` accepts.
const AIMD_ALIASES: Aliases<3> = [
    ("increase", "increase_step_pct"),
    ("decrease", "decrease_step_pct"),
    ("window", "window_s"),
];

/// Short names of keys that `--breaker` accepts.
const BREAKER_ALIASES: Aliases<5> = [
    ("reset", "reset_timeout_s"),
    ("reset_ceiling", "reset_ceiling_s"),
    ("retry_after_cap", "retry_after_cap_s"),
    ("throttle_block", "throttle_block_s"),
    ("jitter", "jitter_ms"),
];

/// Reads the options as a layer of [`Settings`].
pub(crate) fn settings(flags: &CommandLineFlags, problems: &mut Vec<ConfigProblem>) -> Settings {
    let mut settings = Settings::default();
    for text in &flags.rate {
        if let Some(host) = rate(text, problems) {
            settings.limits.hosts = NamedSections(vec![host]).over(settings.limits.hosts);
        }
    }
    for text in &flags.breaker {
        if let Some(host) = host_breaker(text, problems) {
            settings.breakers.hosts = NamedSections(vec![host]).over(settings.breakers.hosts);
        }
    }
    for text in &flags.breaker_resolver {
        if let Some(resolver) = resolver_breaker(text, problems) {
            settings.breakers.resolvers =
                NamedSections(vec![resolver]).over(settings.breakers.resolvers);
        }
    }
    single_values(flags, problems)
        .into_iter()
        .fold(settings, |below, upper| upper.over(below))
}

/// Reads `--aimd`, and the options that set a single key.
fn single_values(flags: &CommandLineFlags, problems: &mut Vec<ConfigProblem>) -> Vec<Settings> {
    let mut layers = Vec::new();
    let flagged: [(&str, &[&str], &Option<String>); 4] = [
        (
            "--rate-backend",
            &["limits", "backend", "kind"],
            &flags.rate_backend,
        ),
        ("--rate-dsn", &["limits", "backend", "dsn"], &flags.rate_dsn),
        (
            "--max-inflight",
            &["limits", "global", "max_inflight"],
            &flags.max_inflight,
        ),
        ("--deadline", &["transport", "deadline_s"], &flags.deadline),
    ];
    for (flag, path, text) in flagged {
        if let Some(text) = text {
            let node = ConfigNode::nested(
                path,
                ConfigNode::text(text, &ValueSource::Flag(flag.into())),
            );
            layers.push(document::read(node, problems));
        }
    }
    if let Some(text) = &flags.aimd {
        let node = ConfigNode::pairs(text, &ValueSource::Flag("--aimd".into()), problems);
        let mut settings = Settings::default();
        settings.limits.aimd = read("limits.aimd", node, &AIMD_ALIASES, problems);
        layers.push(settings);
    }
    layers
}

fn host_breaker(text: &str, problems: &mut Vec<ConfigProblem>) -> Option<(Host, BreakerSettings)> {
    let source = ValueSource::Flag("--breaker".into());
    let (name, pairs) = assignment(text, "HOST=fail_max:5,reset:60", &source, problems)?;
    match host_name(name) {
        Ok(host) => {
            let path = format!("breakers.hosts.{host}");
            let breaker = breaker(&path, pairs, &source, problems);
            Some((host, breaker))
        }
        Err(error) => {
            problems.push(ConfigProblem::without_key(&source, error));
            None
        }
    }
}

fn resolver_breaker(
    text: &str,
    problems: &mut Vec<ConfigProblem>,
) -> Option<(String, BreakerSettings)> {
    let source = ValueSource::Flag("--breaker-resolver".into());
    let (name, pairs) = assignment(text, "NAME=fail_max:4,reset:45", &source, problems)?;
    let path = format!("breakers.resolvers.{name}");
    let breaker = breaker(&path, pairs, &source, problems);
    Some((name.to_owned(), breaker))
}

fn rate(text: &str, problems: &mut Vec<ConfigProblem>) -> Option<(Host, HostSettings)> {
    let source = ValueSource::Flag("--rate".into());
    let (target, pairs) = assignment(
        text,
        "HOST:ROLE=rates:25/SECOND,max_delay_ms:150",
        &source,
        problems,
    )?;
    let Some((host, role)) = target.rsplit_once(':') else {
        problems.push(ConfigProblem::without_key(
            &source,
            format!("'{target}' is not HOST:ROLE"),
        ));
        return None;
    };
    let role = match role.parse::<Role>() {
        Ok(role) => role,
        Err(error) => {
            let suggestion = nearest(role, Role::ALL.map(Role::as_str));
            let problem = ConfigProblem::without_key(&source, error.to_string());
            problems.push(problem.suggesting(suggestion));
            return None;
        }
    };
    match host_name(host) {
        Ok(host) => {
            let node = ConfigNode::nested(
                &[role.as_str()],
                ConfigNode::pairs(pairs, &source, problems),
            );
            let limits = read::<HostSettings>(&format!("limits.hosts.{host}"), node, &[], problems);
            Some((host, limits))
        }
        Err(error) => {
            problems.push(ConfigProblem::without_key(&source, error));
            None
        }
    }
}

pub(super) fn breaker(
    path: &str,
    pairs: &str,
    source: &ValueSource,
    problems: &mut Vec<ConfigProblem>,
) -> BreakerSettings {
    let node = ConfigNode::pairs(pairs, source, problems);
    read(path, node, &BREAKER_ALIASES, problems)
}

fn assignment<'a>(
    text: &'a str,
    form: &str,
    source: &ValueSource,
    problems: &mut Vec<ConfigProblem>,
) -> Option<(&'a str, &'a str)> {
    let split = text
        .split_once('=')
        .filter(|(name, _)| !name.trim().is_empty());
    if split.is_none() {
        problems.push(ConfigProblem::without_key(
            source,
            format!("'{text}' is not of the form {form}"),
        ));
    }
    split.map(|(name, pairs)| (name.trim(), pairs))
}
