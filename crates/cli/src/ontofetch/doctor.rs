//! `ontofetch doctor`: the checks that a pull can work on this machine.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use docstokg_hub::clock::{Clock, SystemClock, Timestamp};
use docstokg_hub::policy::retry_after::http_date;
use docstokg_hub::{Hub, RateWait, Request};
use docstokg_ontology::config::OntologyConfig;
use http::StatusCode;
use http::header::AUTHORIZATION;
use serde_json::{Value, json};
use url::Url;

use super::arguments::DoctorArguments;
use super::library_directory;
use crate::arguments::GlobalArguments;
use crate::configuration::LoadedConfig;
use crate::exit::{self, CommandFailure};
use crate::view::length;
use crate::{output, session, state};

/// Maximum time until an endpoint responds.
const ENDPOINT_TIMEOUT: Duration = Duration::from_secs(10);
/// The path that portals serve only to clients with a key.
const KEYED_PATH: &str = "/ontologies/GO";
/// Minimum disk space for a pull, in bytes.
const MIN_FREE_BYTES: u64 = 1 << 30;
/// The difference of clocks from which dates of servers are useless.
const MAX_CLOCK_OFFSET: Duration = Duration::from_secs(120);

/// The result of one check.
struct DoctorCheck {
    name: String,
    level: CheckLevel,
    detail: String,
}

/// The severity of a result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CheckLevel {
    Good,
    /// A pull works with restrictions.
    Warning,
    /// A pull does not work.
    Bad,
}

impl CheckLevel {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Warning => "warning",
            Self::Bad => "FAIL",
        }
    }
}

fn check(name: &str, level: CheckLevel, detail: impl Into<String>) -> DoctorCheck {
    DoctorCheck {
        name: name.to_owned(),
        level,
        detail: detail.into(),
    }
}

/// Runs the command.
pub(super) fn run(
    global: &GlobalArguments,
    arguments: &DoctorArguments,
) -> Result<ExitCode, CommandFailure> {
    let loaded = global.load()?;
    let library = library_directory::library(global, &arguments.library, &loaded.ontology);
    let mut checks = vec![disk(library.root())];
    checks.extend(credentials(&loaded.ontology));
    checks.extend(snapshot(&loaded.ontology));
    checks.push(store(global, &loaded));
    checks.extend(endpoints(global, &loaded)?);
    let has_failed = checks.iter().any(|check| check.level == CheckLevel::Bad);
    if global.json {
        let shown: Vec<Value> = checks
            .iter()
            .map(|check| json!({ "check": check.name, "level": check.level.as_str(), "detail": check.detail }))
            .collect();
        output::json(&json!({ "ok": !has_failed, "checks": shown }));
    } else {
        for check in &checks {
            output::line(&format!(
                "{:<8}{}: {}",
                check.level.as_str(),
                check.name,
                check.detail
            ));
        }
    }
    Ok(if has_failed {
        ExitCode::from(exit::EXIT_FAILED)
    } else {
        ExitCode::SUCCESS
    })
}

fn disk(library: &Path) -> DoctorCheck {
    let mut directory = library;
    while !directory.exists() {
        match directory.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => directory = parent,
            _ => directory = Path::new("."),
        }
    }
    let name = "disk";
    let shown = library.display();
    match rustix::fs::statvfs(directory) {
        Err(error) => check(
            name,
            CheckLevel::Bad,
            format!("the library {shown} cannot be used: {error}"),
        ),
        Ok(space) => {
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            let gib = free >> 30;
            let level = if free < MIN_FREE_BYTES {
                CheckLevel::Warning
            } else {
                CheckLevel::Good
            };
            check(
                name,
                level,
                format!("the library is {shown}, with {gib} GiB free"),
            )
        }
    }
}

/// Lists the preferred sources without a key.
fn credentials(config: &OntologyConfig) -> Vec<DoctorCheck> {
    let mut checks = Vec::new();
    for name in &config.prefer_source {
        let Some(source) = config.sources.source(name) else {
            continue;
        };
        let Some(credential) = source.spec().credentials.first() else {
            continue;
        };
        let is_there = config.sources.credentials.by_key(name).is_some();
        let (level, detail) = if is_there {
            (
                CheckLevel::Good,
                format!("a key for {} is set", source.spec().title),
            )
        } else {
            let detail = format!(
                "{} is skipped without a key: set {} ({})",
                source.spec().title,
                credential.variable,
                credential.about
            );
            (CheckLevel::Warning, detail)
        };
        checks.push(check("credentials", level, detail));
    }
    checks
}

fn snapshot(config: &OntologyConfig) -> Option<DoctorCheck> {
    let path = config.sources.obo_registry.as_ref()?;
    Some(match std::fs::metadata(path) {
        Ok(meta) => check(
            "registry",
            CheckLevel::Good,
            format!("snapshot {} of {} bytes", path.display(), meta.len()),
        ),
        Err(error) => check(
            "registry",
            CheckLevel::Bad,
            format!("the snapshot {} cannot be read: {error}", path.display()),
        ),
    })
}

fn store(global: &GlobalArguments, loaded: &LoadedConfig) -> DoctorCheck {
    let kind = loaded.config.limits.backend.kind.value.as_str();
    let reached = state::open(global, &loaded.config).and_then(|store| {
        session::block_on(async move {
            let checked = store.check().await;
            checked.map_err(|error| CommandFailure::Failed(error.into()))
        })
    });
    match reached {
        Ok(()) => {
            let shared = loaded.ontology.limits.shared_dir.clone();
            let directory = shared.map_or_else(|| state::directory(global), Ok);
            let directory = directory.unwrap_or_default();
            check(
                "store",
                CheckLevel::Good,
                format!("{kind} in {}", directory.display()),
            )
        }
        Err(failure) => check("store", CheckLevel::Bad, failure.message()),
    }
}

/// Sends one request to each endpoint of the preferred sources, and compares clocks with their
/// responses.
fn endpoints(
    global: &GlobalArguments,
    loaded: &LoadedConfig,
) -> Result<Vec<DoctorCheck>, CommandFailure> {
    let mut bases: Vec<(String, Url)> = Vec::new();
    for name in &loaded.ontology.prefer_source {
        let Some(source) = loaded.ontology.sources.source(name) else {
            continue;
        };
        for endpoint in source.spec().endpoints {
            bases.extend(
                loaded
                    .ontology
                    .sources
                    .base(endpoint)
                    .map(|base| (name.clone(), base)),
            );
        }
    }
    let mut config = loaded.config.clone();
    // A stored response says nothing about the present endpoint and its clock.
    config.cache.enabled = false;
    let hub = session::connect(global, config)?;
    session::block_on(async {
        let mut checks = Vec::new();
        let mut offset = None;
        for (name, base) in bases {
            let (found, server_time) = endpoint(&hub, &loaded.ontology, &name, &base).await;
            checks.push(found);
            offset = offset.or(server_time.map(clock_offset));
        }
        checks.extend(offset.map(clock));
        let _ = hub.close().await;
        Ok(checks)
    })
}

/// Sends a request to one endpoint. Also returns the time of its server.
async fn endpoint(
    hub: &Hub,
    config: &OntologyConfig,
    name: &str,
    base: &Url,
) -> (DoctorCheck, Option<Timestamp>) {
    let bad = |detail: String| {
        (
            check("endpoint", CheckLevel::Bad, format!("{name}: {detail}")),
            None,
        )
    };
    let url = match config.gate.check(base) {
        Ok(url) => url,
        Err(error) => return bad(error.to_string()),
    };
    // With a key, request a path that requires the key, so that the check covers the key.
    let key = config.sources.authorization(name);
    let mut asked = url;
    if key.is_some() {
        asked.set_path(&format!(
            "{}{KEYED_PATH}",
            asked.path().trim_end_matches('/')
        ));
    }
    let mut request = Request::head(asked)
        .deadline(ENDPOINT_TIMEOUT)
        .retry_wait(Duration::ZERO)
        .rate_wait(RateWait::Deadline)
        .service(name);
    if let Some(key) = key {
        request = request.secret_header(AUTHORIZATION, key);
    }
    let answer = match hub.fetch(request).await {
        Ok(answer) => answer,
        Err(error) => return bad(error.sentence()),
    };
    let date = answer.head.headers.get("date");
    let date = date.and_then(|date| date.to_str().ok()).and_then(http_date);
    let status = answer.head.status;
    if status == StatusCode::UNAUTHORIZED {
        let (check, _) = bad(format!("{base} does not accept the key (401)"));
        return (check, date);
    }
    let (level, detail) = endpoint_status(name, base, status);
    (check("endpoint", level, detail), date)
}

/// Judges the status of an endpoint that a request reached.
fn endpoint_status(name: &str, base: &Url, status: StatusCode) -> (CheckLevel, String) {
    let code = status.as_u16();
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => (
            CheckLevel::Warning,
            format!(
                "{name}: {base} responds with {code}, so the address may be wrong; \
                 ontology.sources.{name}.url sets it"
            ),
        ),
        // Some services refuse HEAD requests, or requests without parameters.
        StatusCode::BAD_REQUEST | StatusCode::METHOD_NOT_ALLOWED => {
            (CheckLevel::Good, format!("{name}: {base} is reached"))
        }
        status if status.is_client_error() || status.is_server_error() => (
            CheckLevel::Warning,
            format!("{name}: {base} responds with {code}"),
        ),
        _ => (
            CheckLevel::Good,
            format!("{name}: {base} responds with {code}"),
        ),
    }
}

fn clock_offset(server: Timestamp) -> Duration {
    let here = SystemClock.wall();
    here.since(server).max(server.since(here))
}

fn clock(offset: Duration) -> DoctorCheck {
    let level = if offset > MAX_CLOCK_OFFSET {
        CheckLevel::Warning
    } else {
        CheckLevel::Good
    };
    check(
        "clock",
        level,
        format!("{} from that of a server", length(offset)),
    )
}
