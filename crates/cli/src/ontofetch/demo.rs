//! `ontofetch demo`: a pull from built-in simulated registries.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use docstokg_ontology::library::Library;
use docstokg_ontology::wanted_ontology::OntologyId;
use docstokg_origin_sim::SimulatedWeb;
use docstokg_origin_sim::ontologies::{LIMITS, OntologyTruth, OntologyWorld, PORTAL_KEY};
use serde_json::json;

use super::arguments::{OntofetchArguments, OntofetchCommand, PullDemoArguments};
use super::pull;
use crate::arguments::GlobalArguments;
use crate::commands::demo::DemoWeb;
use crate::exit::{self, CommandFailure};
use crate::{command_line, output};

/// The result of the demonstration, compared with the truth of the simulated registries and the
/// ledgers of their hosts.
struct PullDemoResult {
    stored: usize,
    obtainable: usize,
    wrong: Vec<String>,
    throttled: usize,
    requests: usize,
}

impl PullDemoResult {
    fn is_complete(&self) -> bool {
        self.stored == self.obtainable && self.wrong.is_empty() && self.throttled == 0
    }
}

/// Runs the command.
pub(super) fn run(
    global: &GlobalArguments,
    arguments: &PullDemoArguments,
) -> Result<ExitCode, CommandFailure> {
    let world = OntologyWorld::new(arguments.ontologies as usize);
    let out = arguments.out.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("ontofetch-demo-{}", std::process::id()))
    });
    let served = DemoWeb::start(world.origins())?;
    let files = prepare(&world, &out)?;
    if !global.quiet {
        output::print_note(&format!(
            "{} ontologies at {} simulated hosts on loopback; no internet is used",
            arguments.ontologies,
            world.hosts().len()
        ));
    }
    let words = pull_words(global, &world, &served.address, &files);
    let parsed = OntofetchArguments::try_parse_from(words)
        .map_err(|error| CommandFailure::Failed(error.into()))?;
    let OntofetchCommand::Pull(job) = &parsed.command else {
        return Err(CommandFailure::Failed(anyhow::anyhow!(
            "the demo is a pull"
        )));
    };
    // The commands that it prints have to find its state.
    command_line::remember_context(&parsed.global);
    // The demonstration includes ontologies without a file, so the pull itself exits with 1.
    let done = pull::execute(&parsed.global, job)?;
    if !global.json {
        pull::show(&parsed.global, &done);
    }
    if pull::code(&done) == ExitCode::from(exit::EXIT_INTERRUPTED) {
        return Ok(pull::code(&done));
    }
    let library = Library::at(&files.library);
    let achieved = judge(&library, &world.truth(), &served.web)?;
    show(global, &achieved, &files, done.report.as_deref());
    Ok(if achieved.is_complete() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(exit::EXIT_FAILED)
    })
}

/// The files of a demonstration.
struct PullDemoFiles {
    library: PathBuf,
    config: PathBuf,
    spec: PathBuf,
    state: PathBuf,
}

fn prepare(world: &OntologyWorld, out: &Path) -> anyhow::Result<PullDemoFiles> {
    let directory = out.join("demo");
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("{} cannot be written", directory.display()))?;
    let files = PullDemoFiles {
        library: out.join("library"),
        config: directory.join("config.yaml"),
        spec: directory.join("sources.yaml"),
        state: directory.join("state"),
    };
    let ids: Vec<String> = world
        .truth()
        .iter()
        .map(|truth| format!("  - {}\n", truth.id))
        .collect();
    std::fs::write(&files.spec, format!("ontologies:\n{}", ids.concat()))
        .context("the list of ontologies cannot be written")?;
    std::fs::write(&files.config, configuration(world))
        .context("the configuration cannot be written")?;
    Ok(files)
}

/// Returns the configuration: the simulated hosts use plain http, and have higher limits than real
/// hosts.
fn configuration(world: &OntologyWorld) -> String {
    let limits: Vec<String> = LIMITS
        .iter()
        .map(|(host, rate)| {
            let role = |role: &str| format!("{role}: {{ rates: [\"{rate}\"], max_concurrent: 8 }}");
            format!(
                "    {host}: {{ {}, {} }}\n",
                role("metadata"),
                role("artifact")
            )
        })
        .collect();
    let sources = [
        ("obo", "http://obofoundry.org"),
        ("ols", "http://www.ebi.ac.uk/ols4"),
        ("bioportal", "http://data.bioontology.org"),
    ];
    let sources: Vec<String> = sources
        .iter()
        .map(|(name, url)| match *name {
            "bioportal" => format!("    {name}: {{ url: \"{url}\", key: {PORTAL_KEY} }}\n"),
            _ => format!("    {name}: {{ url: \"{url}\" }}\n"),
        })
        .collect();
    format!(
        "version: 1\nlimits:\n  hosts:\n{}sites:\n  ebi: {{ hosts: [www.ebi.ac.uk, europepmc.org], common: {{ rates: [\"20/SECOND\"], max_concurrent: 8 }} }}\n\
         ontology:\n  prefer_source: [obo, ols, bioportal]\n  plain_http_hosts: [{}]\n  ratelimit: {{ per_service: \"obo:20/second+1000/minute;ols:20/second+1000/minute;bioportal:20/second+1000/minute\" }}\n  sources:\n{}",
        limits.concat(),
        world.hosts().join(", "),
        sources.concat()
    )
}

fn pull_words(
    global: &GlobalArguments,
    world: &OntologyWorld,
    address: &str,
    files: &PullDemoFiles,
) -> Vec<String> {
    let path = |path: &Path| path.display().to_string();
    let mut words: Vec<String> = ["ontofetch", "pull"].map(str::to_owned).into();
    for (flag, value) in [
        ("--spec", &files.spec),
        ("--library", &files.library),
        ("--config", &files.config),
        ("--state-dir", &files.state),
    ] {
        words.extend([flag.to_owned(), path(value)]);
    }
    for host in world.hosts() {
        words.extend(["--connect-to".to_owned(), format!("{host}:80={address}")]);
    }
    if global.quiet || global.json {
        words.push("--quiet".to_owned());
    }
    words
}

/// Compares the library with the truth of the simulated registries.
fn judge(
    library: &Library,
    truth: &[OntologyTruth],
    web: &SimulatedWeb,
) -> anyhow::Result<PullDemoResult> {
    let mut achieved = PullDemoResult {
        stored: 0,
        obtainable: truth.iter().filter(|truth| truth.version.is_some()).count(),
        wrong: Vec::new(),
        throttled: web.ledger().statuses().get(&429).copied().unwrap_or(0),
        requests: web.ledger().len(),
    };
    for truth in truth {
        let id = OntologyId::parse(&truth.id).map_err(anyhow::Error::msg)?;
        let latest = library.latest(&id)?;
        match (&truth.version, latest) {
            (Some(version), Some(latest)) if latest.name == *version => achieved.stored += 1,
            (None, None) => {}
            (wanted, found) => achieved.wrong.push(format!(
                "{}: wanted {wanted:?}, found {:?}",
                truth.id,
                found.map(|found| found.name)
            )),
        }
    }
    Ok(achieved)
}

fn show(
    global: &GlobalArguments,
    achieved: &PullDemoResult,
    files: &PullDemoFiles,
    report: Option<&Path>,
) {
    let library = files.library.display();
    if global.json {
        output::json(&json!({
            "ok": achieved.is_complete(),
            "stored": achieved.stored,
            "obtainable": achieved.obtainable,
            "wrong": achieved.wrong,
            "avoidable_429": achieved.throttled,
            "requests": achieved.requests,
            "library": library.to_string(),
            "report": report,
        }));
        return;
    }
    for wrong in &achieved.wrong {
        output::line(&format!("wrong: {wrong}"));
    }
    output::line(&format!(
        "\nstored {} of {} obtainable ontologies\navoidable 429s, by the hosts' own count: {} in {} \
         requests\nlibrary: {library}\nreport: {}\nfigures: {}",
        achieved.stored,
        achieved.obtainable,
        achieved.throttled,
        achieved.requests,
        report.unwrap_or(Path::new("none")).display(),
        command_line::command(&["summary"])
    ));
}
