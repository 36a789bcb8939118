//! `docstokg demo`: a download from the built-in simulated web.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use docstokg_bulk::directory::Directory;
use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_origin_sim::scholarly::{LibraryPlan, WorkLibrary};
use docstokg_origin_sim::{Ledger, Listener, OriginScript, Security, SimulatedWeb};
use docstokg_telemetry::report;
use docstokg_telemetry::sink::sqlite::open_to_read;
use docstokg_telemetry::summary::{self, Makespan, RunChoice};
use serde_json::json;

use super::download;
use super::summary::write_page;
use crate::arguments::{DemoArguments, DocstokgArguments, DocstokgCommand, GlobalArguments};
use crate::exit::{self, CommandFailure};
use crate::session::{self, TaskThreads};
use crate::view::plural;
use crate::{command_line, output};

/// A simulated web on loopback, in a runtime of its own.
pub(crate) struct DemoWeb {
    /// The simulated web.
    pub(crate) web: SimulatedWeb,
    /// The address of all its hosts.
    pub(crate) address: String,
    _listener: Listener,
    _runtime: tokio::runtime::Runtime,
}

impl DemoWeb {
    /// Starts to serve hosts.
    pub(crate) fn start(origins: Vec<OriginScript>) -> Result<Self, CommandFailure> {
        let runtime = session::start_runtime(TaskThreads::Two)?;
        let web = SimulatedWeb::new(origins, SystemClock.boot());
        let listener = runtime
            .block_on(Listener::start(&web, Security::Plain))
            .context("no port on loopback can be listened on")?;
        Ok(Self {
            web,
            address: listener.address.to_string(),
            _listener: listener,
            _runtime: runtime,
        })
    }
}

/// Runs the command.
pub(crate) fn run(
    global: &GlobalArguments,
    arguments: &DemoArguments,
) -> Result<ExitCode, CommandFailure> {
    let plan = LibraryPlan {
        seed: arguments.seed,
        works: arguments.works as usize,
        scale: arguments.scale,
        ..LibraryPlan::default()
    };
    let library = WorkLibrary::generate(&plan);
    let out = arguments.out.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("docstokg-demo-{}", std::process::id()))
    });
    if Directory::was_used(&out) {
        return Err(CommandFailure::Usage(format!(
            "{} holds an earlier run, whose files would be counted as well: choose another --out",
            out.display()
        )));
    }
    let served = DemoWeb::start(library.origins())?;
    let prepared = prepare(&library, &out)?;
    if !global.quiet {
        output::tell(&format!(
            "docstokg: {} works at {} simulated hosts on loopback, with {}x the limits of the \
             real services; no internet is used",
            library.truth().len(),
            library.hosts().len(),
            plan.scale
        ));
    }
    let words = download_words(global, &library, &served.address, &out, &prepared);
    let parsed = DocstokgArguments::try_parse_from(words)
        .map_err(|error| CommandFailure::Failed(error.into()))?;
    let DocstokgCommand::Download(job) = &parsed.command else {
        return Err(CommandFailure::Failed(anyhow::anyhow!(
            "the demo is a download"
        )));
    };
    // The commands that it prints have to find its state.
    command_line::remember_context(&parsed.global);
    // The demonstration includes works without a file, so the download itself exits with 1.
    let ended = download::run(&parsed.global, job)?;
    if ended == ExitCode::from(exit::EXIT_INTERRUPTED) {
        return Ok(ended);
    }
    let achieved = DemoResult::count(&library, served.web.ledger(), &out)?;
    show(global, &achieved, &out, &prepared)
}

/// The files of a demonstration.
struct DemoFiles {
    input: PathBuf,
    config: PathBuf,
    state: PathBuf,
}

fn prepare(library: &WorkLibrary, out: &Path) -> anyhow::Result<DemoFiles> {
    let directory = out.join("demo");
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("{} cannot be written", directory.display()))?;
    let prepared = DemoFiles {
        input: directory.join("works.txt"),
        config: directory.join("config.yaml"),
        state: directory.join("state"),
    };
    std::fs::write(&prepared.input, library.input_lines().join("\n") + "\n")
        .context("the list of works cannot be written")?;
    std::fs::write(&prepared.config, library.client_configuration())
        .context("the configuration cannot be written")?;
    Ok(prepared)
}

fn download_words(
    global: &GlobalArguments,
    library: &WorkLibrary,
    address: &str,
    out: &Path,
    prepared: &DemoFiles,
) -> Vec<String> {
    let path = |path: &Path| path.display().to_string();
    let mut words: Vec<String> = ["docstokg", "download"].map(str::to_owned).into();
    words.extend([
        path(&prepared.input),
        "--out".into(),
        path(out),
        "--config".into(),
        path(&prepared.config),
    ]);
    words.extend([
        "--state-dir".into(),
        path(&prepared.state),
        "--kinds".into(),
        "pdf".into(),
    ]);
    for host in library.hosts() {
        words.extend(["--connect-to".into(), format!("{host}:80={address}")]);
    }
    words.extend(
        global
            .metrics
            .iter()
            .flat_map(|metrics| ["--metrics".to_owned(), metrics.clone()]),
    );
    words.extend(global.quiet.then(|| "--quiet".to_owned()));
    words.extend(
        global
            .json
            .then(|| "--quiet".to_owned())
            .filter(|_| !global.quiet),
    );
    words
}

/// The result of the demonstration, compared with the truth of the simulated web and the ledgers of
/// its hosts.
struct DemoResult {
    files: usize,
    obtainable: usize,
    works: usize,
    avoidable_429: usize,
    requests: usize,
}

impl DemoResult {
    fn count(library: &WorkLibrary, ledger: &Ledger, out: &Path) -> anyhow::Result<Self> {
        let manifest = std::fs::read_to_string(out.join("manifest.jsonl"))
            .context("the manifest cannot be read")?;
        let records = manifest
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let files = records.filter(|record| {
            record["record_type"] == "manifest" && record["classification"] == "pdf"
        });
        let truth = library.truth();
        Ok(Self {
            files: files.count(),
            obtainable: truth.iter().filter(|truth| truth.has_pdf()).count(),
            works: truth.len(),
            avoidable_429: ledger.statuses().get(&429).copied().unwrap_or(0),
            requests: ledger.len(),
        })
    }

    fn is_complete(&self) -> bool {
        self.files == self.obtainable && self.avoidable_429 == 0
    }
}

fn show(
    global: &GlobalArguments,
    achieved: &DemoResult,
    out: &Path,
    prepared: &DemoFiles,
) -> Result<ExitCode, CommandFailure> {
    let failed = |error: &dyn std::fmt::Display| CommandFailure::Failed(anyhow::anyhow!("{error}"));
    let database =
        open_to_read(&prepared.state.join("telemetry.sqlite3")).map_err(|error| failed(&error))?;
    let found = summary::load(&database, &RunChoice::Latest).map_err(|error| failed(&error))?;
    let page = report::page(&database, &found).map_err(|error| failed(&error))?;
    write_page(&out.join("network.html"), &page)?;
    let path = |name: &str| out.join(name).display().to_string();
    if global.json {
        output::json(&json!({
            "ok": achieved.is_complete(),
            "files": achieved.files,
            "obtainable": achieved.obtainable,
            "avoidable_429": achieved.avoidable_429,
            "requests": achieved.requests,
            "summary": found,
            "manifest": path("manifest.jsonl"),
            "report": path("report.html"),
            "network": path("network.html"),
        }));
    } else {
        output::text(&summary::text(&found, &[]));
        output::line(&text(achieved, &found.makespan));
        for (name, file) in [
            ("manifest", "manifest.jsonl"),
            ("report", "report.html"),
            ("network", "network.html"),
        ] {
            output::line(&format!("{name}: {}", path(file)));
        }
    }
    Ok(if achieved.is_complete() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(exit::EXIT_FAILED)
    })
}

fn text(achieved: &DemoResult, makespan: &Makespan) -> String {
    let ratio = makespan
        .ratio
        .map_or_else(String::new, |ratio| format!(" ({ratio:.2}x)"));
    let without = (achieved.works - achieved.obtainable) as u64;
    let verb = if without == 1 { "has" } else { "have" };
    let without = format!("{} {verb}", plural(without, "work"));
    format!(
        "\ndownloaded {} of {} obtainable files ({without} none anywhere)\n\
         avoidable 429s, by the hosts' own count: {} in {} requests\n\
         took {:.1} s; the limits allow no less than {:.1} s{ratio}",
        achieved.files,
        achieved.obtainable,
        achieved.avoidable_429,
        achieved.requests,
        makespan.seconds,
        makespan.minimum_s
    )
}
