//! `docstokg demo`: the main job against the built-in simulated web.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use docstokg_content::run::Directory;
use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_origin_sim::scholarly::{Library, Plan};
use docstokg_origin_sim::{Ledger, Listener, Security, Web};
use docstokg_telemetry::report;
use docstokg_telemetry::sink::sqlite::open_to_read;
use docstokg_telemetry::summary::{self, RunChoice};
use serde_json::json;

use super::download;
use super::summary::write_page;
use crate::arguments::{Arguments, Command, Demo, Global};
use crate::exit::{self, Failure};
use crate::output;

/// A simulated web on loopback, in a runtime of its own.
struct Served {
    web: Web,
    address: String,
    _listener: Listener,
    _runtime: tokio::runtime::Runtime,
}

fn serve(library: &Library) -> anyhow::Result<Served> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("the async runtime cannot be started")?;
    let web = Web::new(library.origins(), SystemClock.boot());
    let listener = runtime
        .block_on(Listener::start(&web, Security::Plain))
        .context("no port on loopback can be listened on")?;
    Ok(Served {
        web,
        address: listener.address.to_string(),
        _listener: listener,
        _runtime: runtime,
    })
}

/// Runs the command.
pub(crate) fn run(global: &Global, arguments: &Demo) -> Result<ExitCode, Failure> {
    let plan = Plan {
        seed: arguments.seed,
        works: arguments.works as usize,
        scale: arguments.scale,
        ..Plan::default()
    };
    let library = Library::generate(&plan);
    let out = arguments.out.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("docstokg-demo-{}", std::process::id()))
    });
    if Directory::was_used(&out) {
        return Err(Failure::Usage(format!(
            "{} holds an earlier run, whose files would be counted, too: choose another --out",
            out.display()
        )));
    }
    let served = serve(&library)?;
    let prepared = prepare(&library, &out)?;
    if !global.quiet {
        output::tell(&format!(
            "docstokg: {} works at {} simulated hosts on loopback, their limits {} x those of the real ones; no internet is used",
            library.truth().len(),
            library.hosts().len(),
            plan.scale
        ));
    }
    let words = command_line(global, &library, &served.address, &out, &prepared);
    let parsed = Arguments::try_parse_from(words).map_err(|error| Failure::Failed(error.into()))?;
    let Command::Download(job) = &parsed.command else {
        return Err(Failure::Failed(anyhow::anyhow!("the demo is a download")));
    };
    // Works that nobody can get are part of the demonstration: the run itself ends with 1.
    download::run(&parsed.global, job)?;
    show(global, &library, served.web.ledger(), &out, &prepared)
}

/// What a run needs, in files.
struct Prepared {
    input: PathBuf,
    config: PathBuf,
    state: PathBuf,
}

fn prepare(library: &Library, out: &Path) -> anyhow::Result<Prepared> {
    let place = out.join("demo");
    std::fs::create_dir_all(&place)
        .with_context(|| format!("{} cannot be written", place.display()))?;
    let prepared = Prepared {
        input: place.join("works.txt"),
        config: place.join("config.yaml"),
        state: place.join("state"),
    };
    std::fs::write(&prepared.input, library.input_lines().join("\n") + "\n")
        .context("the list of works cannot be written")?;
    std::fs::write(&prepared.config, library.client_configuration())
        .context("the configuration cannot be written")?;
    Ok(prepared)
}

fn command_line(
    global: &Global,
    library: &Library,
    address: &str,
    out: &Path,
    prepared: &Prepared,
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

fn show(
    global: &Global,
    library: &Library,
    ledger: &Ledger,
    out: &Path,
    prepared: &Prepared,
) -> Result<ExitCode, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(anyhow::anyhow!("{error}"));
    let database =
        open_to_read(&prepared.state.join("telemetry.sqlite3")).map_err(|error| failed(&error))?;
    let found = summary::load(&database, &RunChoice::Latest).map_err(|error| failed(&error))?;
    let (report, page) = (out.join("report.html"), out.join("network.html"));
    write_page(
        &page,
        &report::page(&database, &found).map_err(|error| failed(&error))?,
    )?;
    let text = std::fs::read_to_string(out.join("manifest.jsonl"))
        .context("the manifest cannot be read")?;
    let saved = text
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let saved = saved
        .filter(|record| record["record_type"] == "manifest" && record["classification"] == "pdf")
        .count();
    let obtainable = library
        .truth()
        .iter()
        .filter(|truth| truth.has_pdf())
        .count();
    let throttled = ledger.statuses().get(&429).copied().unwrap_or(0);
    let good = saved == obtainable && throttled == 0;
    if global.json {
        output::json(&json!({
            "ok": good, "files": saved, "obtainable": obtainable, "avoidable_429": throttled, "requests": ledger.len(), "summary": found,
            "manifest": out.join("manifest.jsonl").display().to_string(), "report": report.display().to_string(),
            "network": page.display().to_string(),
        }));
    } else {
        output::text(&summary::text(&found, &[]));
        let ratio = found
            .makespan
            .ratio
            .map_or_else(String::new, |ratio| format!(", {ratio:.2} x"));
        output::line(&format!(
            "\nfiles: {saved} of {obtainable} obtainable ones ({} works have none anywhere)\navoidable 429s, by the hosts' own count: {throttled} in {} requests\n\
             time: {:.1} s; the limits allow no less than {:.1} s{ratio}\nmanifest: {}\nreport: {}\nnetwork: {}",
            library.truth().len() - obtainable,
            ledger.len(),
            found.makespan.seconds,
            found.makespan.minimum_s,
            out.join("manifest.jsonl").display(),
            report.display(),
            page.display()
        ));
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(exit::FAILED)
    })
}
