//! `docstokg limits advise [RUN|HOST]`: the learned limits of hosts.
//!
//! The output has the limits in words and as lines of configuration, the refusals of a run that
//! they would have prevented, and the configured limits that were never reached.

mod lines;
mod saved;

use std::path::Path;
use std::process::ExitCode;

use docstokg_hub::Host;
use docstokg_hub::config::{Config, is_pace, read_network_key};
use docstokg_hub::policy::host_model::learner::{ConfirmedLimit, LimitShape};
use docstokg_hub::stores::{SiteKey, SiteView, StoreError};
use docstokg_telemetry::sink::sqlite::{Database, open_to_read};
use docstokg_telemetry::summary::limits::{self, UnreachedLimit};
use docstokg_telemetry::summary::{RunChoice, SummaryError};
use serde_json::{Value, json};

use crate::arguments::GlobalArguments;
use crate::configuration::LoadedConfig;
use crate::exit::CommandFailure;
use crate::view::plural;
use crate::{command_line, output, session, state, telemetry};
use saved::HostRefusals;

/// The learned limits of one site.
struct LearnedSite {
    /// The name of the site, if the configuration joins hosts.
    site: Option<String>,
    /// The hosts of the site.
    hosts: Vec<Host>,
    /// The roles in which the run sent requests to the site.
    roles: Vec<String>,
    limits: Vec<ConfirmedLimit>,
    searching: bool,
    /// The refusals of the run.
    refusals: HostRefusals,
}

impl LearnedSite {
    fn name(&self) -> String {
        match (&self.site, self.hosts.first()) {
            (Some(site), _) => format!("site {site}"),
            (None, Some(host)) => host.to_string(),
            (None, None) => String::new(),
        }
    }

    fn is_of(&self, hosts: &[Host]) -> bool {
        self.hosts.iter().any(|host| hosts.contains(host))
    }
}

/// The data of the output.
struct AdviceView {
    /// The run whose refusals are counted; `None` without telemetry.
    run: Option<String>,
    learned: Vec<LearnedSite>,
    /// Hosts that refused requests of the run and have no learned limits.
    refused: Vec<(String, u64)>,
    unreached: Vec<UnreachedLimit>,
}

/// The subject of the command.
enum AdviceSubject {
    Run(RunChoice),
    Host(Host),
}

/// Runs the command.
pub(crate) fn run(
    global: &GlobalArguments,
    loaded: &LoadedConfig,
    about: Option<&str>,
) -> Result<ExitCode, CommandFailure> {
    let config = &loaded.config;
    let directory = about.map(Path::new).filter(|path| path.is_dir());
    let database = match telemetry::database_of(global, &loaded.telemetry, directory)? {
        Some(path) if path.exists() => {
            Some(open_to_read(&path).map_err(|error| CommandFailure::Failed(error.into()))?)
        }
        _ => None,
    };
    let about = read_about(database.as_ref(), about)?;
    let store = state::open_strict(global, config)?;
    let views = session::block_on(async {
        let failed = |error: StoreError| CommandFailure::Failed(error.into());
        let mut views = Vec::new();
        for key in store.list().await.map_err(failed)? {
            if !is_pace(&key) && read_network_key(&key).is_none() {
                let view = store.site(&key).view().await.map_err(failed)?;
                views.push((key, view));
            }
        }
        Ok(views)
    })?;
    let learned = views
        .iter()
        .filter_map(|(key, view)| learned_of(config, key, view))
        .collect();
    let advice = advise(database.as_ref(), &about, learned)
        .map_err(|error| CommandFailure::Failed(error.into()))?;
    if global.json {
        output::json(&advice_json(&advice));
    } else {
        output::text(&text(&advice));
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the argument: a run by its id, the directory of a download, or a host.
fn read_about(
    database: Option<&Database>,
    about: Option<&str>,
) -> Result<AdviceSubject, CommandFailure> {
    let Some(named) = about else {
        return Ok(AdviceSubject::Run(RunChoice::Latest));
    };
    let path = Path::new(named);
    if path.is_dir() {
        let run = super::status::run_id_of(path)?;
        return Ok(AdviceSubject::Run(RunChoice::Named(run)));
    }
    let choice = RunChoice::parse(Some(named));
    let is_run = match (database, &choice) {
        (_, RunChoice::Latest | RunChoice::All) => true,
        (Some(database), RunChoice::Named(_)) => match limits::run_id(database, &choice) {
            Ok(_) => true,
            Err(SummaryError::Unknown { .. } | SummaryError::NoRun) => false,
            Err(error) => return Err(CommandFailure::Failed(error.into())),
        },
        (None, RunChoice::Named(_)) => false,
    };
    if is_run {
        return Ok(AdviceSubject::Run(choice));
    }
    match Host::parse(named) {
        Ok(host) if named.contains(['.', ':']) => Ok(AdviceSubject::Host(host)),
        _ => Err(CommandFailure::Usage(format!(
            "'{named}' is neither a run, nor a download directory, nor a host; \
             {} names the runs",
            command_line::command(&["summary", "--list"])
        ))),
    }
}

/// Returns the learned limits of a site, if it has any.
fn learned_of(config: &Config, key: &SiteKey, view: &SiteView) -> Option<LearnedSite> {
    let found = view.site.learned()?;
    let limits: Vec<ConfirmedLimit> = found.limits().copied().collect();
    let searching = found.is_searching();
    if limits.is_empty() && !searching {
        return None;
    }
    let joined = config.sites.iter().find(|site| site.key() == *key);
    let hosts = match joined {
        Some(site) => site.hosts.clone(),
        None => vec![Host::parse(key).ok()?],
    };
    Some(LearnedSite {
        site: joined.map(|site| site.name.to_string()),
        hosts,
        roles: Vec::new(),
        limits,
        searching,
        refusals: HostRefusals::default(),
    })
}

/// Joins the learned limits with the requests of a run.
fn advise(
    database: Option<&Database>,
    about: &AdviceSubject,
    mut learned: Vec<LearnedSite>,
) -> Result<AdviceView, SummaryError> {
    if let AdviceSubject::Host(host) = about {
        learned.retain(|site| site.hosts.contains(host));
    }
    let mut advice = AdviceView {
        run: None,
        learned,
        refused: Vec::new(),
        unreached: Vec::new(),
    };
    let Some(database) = database else {
        return Ok(advice);
    };
    let choice = match about {
        AdviceSubject::Run(choice) => choice.clone(),
        AdviceSubject::Host(_) => RunChoice::Latest,
    };
    let run = match limits::run_id(database, &choice) {
        Ok(run) => run,
        Err(SummaryError::NoRun) => return Ok(advice),
        Err(error) => return Err(error),
    };
    advice.run = Some(run.clone().unwrap_or_else(|| "all".to_owned()));
    add_run(database, run.as_deref(), about, &mut advice)?;
    Ok(advice)
}

/// Adds the refusals of a run, and the limits that it never reached.
fn add_run(
    database: &Database,
    run: Option<&str>,
    about: &AdviceSubject,
    advice: &mut AdviceView,
) -> Result<(), SummaryError> {
    let used: Vec<(Host, u64)> = limits::hosts_used(database, run)?
        .into_iter()
        .filter_map(|(host, refused)| Some((Host::parse(&host).ok()?, refused)))
        .collect();
    if matches!(about, AdviceSubject::Run(_)) {
        let hosts: Vec<Host> = used.iter().map(|(host, _)| host.clone()).collect();
        advice.learned.retain(|site| site.is_of(&hosts));
    }
    for site in &mut advice.learned {
        let mut requests = Vec::new();
        for host in &site.hosts {
            requests.extend(limits::sent_requests(database, run, host.as_str())?);
            site.roles
                .extend(limits::roles_used(database, run, host.as_str())?);
        }
        site.roles.sort();
        site.roles.dedup();
        requests.sort_by(|a, b| a.sent_s.total_cmp(&b.sent_s));
        site.refusals = saved::count(&requests, &site.limits);
    }
    let is_asked = |host: &Host| match about {
        AdviceSubject::Run(_) => true,
        AdviceSubject::Host(named) => named == host,
    };
    let unknown = used.iter().filter(|(host, refused)| {
        *refused > 0
            && is_asked(host)
            && !advice.learned.iter().any(|site| site.hosts.contains(host))
    });
    advice.refused = unknown
        .map(|(host, refused)| (host.to_string(), *refused))
        .collect();
    advice.unreached = limits::unreached(database, run)?;
    advice
        .unreached
        .retain(|limit| Host::parse(&limit.host).is_ok_and(|host| is_asked(&host)));
    Ok(())
}

fn text(advice: &AdviceView) -> String {
    let mut text = String::new();
    let run = advice.run.as_deref();
    if advice.learned.is_empty() {
        text += "nothing was learned\n";
    }
    for site in &advice.learned {
        text += &site_text(site, run);
    }
    for (host, refused) in &advice.refused {
        let requests = plural(*refused, "request");
        text += &format!("{host} refused {requests} with 429; no limit was learned from that\n");
    }
    if let Some(lines) = lines::yaml(&advice.learned) {
        text += &format!("\nto make this the configuration, add:\n{lines}");
    }
    if let (Some(run), false) = (run, advice.unreached.is_empty()) {
        text += &format!("\nnever reached in run {run} (no request waited for the rate):\n");
        for limit in &advice.unreached {
            let requests = plural(limit.requests, "request");
            let (host, role, rates) = (&limit.host, &limit.role, &limit.rates);
            text += &format!("  {host} {role} {rates} ({requests})\n");
        }
    }
    text
}

fn site_text(site: &LearnedSite, run: Option<&str>) -> String {
    let name = site.name();
    let mut text = String::new();
    for limit in &site.limits {
        text += &format!("{name} looks like {limit}\n");
    }
    if site.searching {
        text += &format!("{name}: a search for its limit is under way\n");
    }
    let HostRefusals { all, saved } = site.refusals;
    if let Some(run) = run {
        text += &match (all, site.limits.is_empty()) {
            (0, _) => format!("  it refused no request of run {run}\n"),
            (_, true) => format!("  refusals of run {run}: {all}\n"),
            (_, false) => format!(
                "  refusals of run {run}: {all}; with this limit from the start: {saved} fewer\n"
            ),
        };
    }
    text
}

fn advice_json(advice: &AdviceView) -> Value {
    let sites = advice.learned.iter().map(|site| {
        json!({
            "site": site.site,
            "hosts": site.hosts.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "roles": site.roles,
            "limits": site.limits.iter().map(limit_json).collect::<Vec<_>>(),
            "searching": site.searching,
            "refusals": site.refusals.all,
            "refusals_saved": site.refusals.saved,
        })
    });
    let refused = advice.refused.iter();
    let refused = refused.map(|(host, refused)| json!({ "host": host, "refusals": refused }));
    json!({
        "run": advice.run,
        "learned": sites.collect::<Vec<_>>(),
        "yaml": lines::yaml(&advice.learned),
        "refused_without_a_limit": refused.collect::<Vec<_>>(),
        "never_reached": advice.unreached,
    })
}

/// Returns a [`ConfirmedLimit`] as JSON, for `limits doctor` and `limits advise`.
pub(crate) fn limit_json(limit: &ConfirmedLimit) -> Value {
    let (shape, seconds) = match limit.shape {
        LimitShape::Window { seconds } => ("window", Some(seconds)),
        LimitShape::Cap => ("cap", None),
        LimitShape::Rate => ("rate", Some(1.0)),
    };
    json!({
        "text": limit.to_string(),
        "shape": shape,
        "amount": limit.amount,
        "seconds": seconds,
        "seen": limit.seen,
    })
}
