//! `docstokg summary`: the figures of a run.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use docstokg_content::reason::Reason;
use docstokg_content::results::ResultCounts;
use docstokg_hub::files::write_whole;
use docstokg_telemetry::config::SloSettings;
use docstokg_telemetry::report;
use docstokg_telemetry::sink::sqlite::open_to_read;
use docstokg_telemetry::summary::{self, RunChoice, RunSummary, TargetCheck};
use serde_json::{Value, json};

use crate::arguments::{GlobalArguments, SummaryArguments};
use crate::exit::{self, CommandFailure};
use crate::view::plural;
use crate::{output, telemetry};

/// Runs the command.
pub(crate) fn run(
    global: &GlobalArguments,
    arguments: &SummaryArguments,
) -> Result<ExitCode, CommandFailure> {
    let loaded = global.load()?;
    let configured = &loaded.settings.telemetry.slo;
    let targets = match &arguments.slo {
        Some(Some(file)) => Some(SloSettings::from_file(file, configured)?),
        Some(None) => Some(configured.clone()),
        None => None,
    };
    let path = arguments.telemetry.clone();
    let Some(path) = path.or_else(|| telemetry::database(global, &loaded.telemetry)) else {
        let message = "telemetry.sqlite is off, so there is nothing to summarise; \
                       --telemetry FILE names another database";
        return Err(CommandFailure::Usage(message.to_owned()));
    };
    let database = open_to_read(&path).map_err(|error| CommandFailure::Failed(error.into()))?;
    if arguments.list {
        let ids = summary::runs(&database).map_err(|error| CommandFailure::Failed(error.into()))?;
        list(global, &ids);
        return Ok(ExitCode::SUCCESS);
    }
    let read = |choice: &RunChoice| {
        summary::load(&database, choice).map_err(|error| CommandFailure::Failed(error.into()))
    };
    let directory = arguments.run.as_deref().map(Path::new);
    let works = directory
        .filter(|path| path.is_dir())
        .map(works_of)
        .transpose()?;
    if let (Some(works), false) = (&works, global.json) {
        output::line(&works_text(works));
    }
    let run_id = works
        .as_ref()
        .map(|works| works["run_id"].as_str().unwrap_or_default());
    let found = read(&RunChoice::parse(run_id.or(arguments.run.as_deref())))?;
    let checks = targets.map_or_else(Vec::new, |targets| summary::check(&found, &targets));
    let before = arguments
        .compare
        .as_ref()
        .map(|id| read(&RunChoice::Named(id.clone())))
        .transpose()?;
    if let Some(file) = &arguments.html {
        let page = report::page(&database, &found);
        write_page(
            file,
            &page.map_err(|error| CommandFailure::Failed(error.into()))?,
        )?;
    }
    let ok = checks.iter().all(|check| check.ok);
    let shown = SummaryView {
        found,
        checks,
        before,
        works,
    };
    show(global, arguments, shown)?;
    Ok(if ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(exit::EXIT_FAILED)
    })
}

/// The data of a summary.
struct SummaryView {
    found: RunSummary,
    checks: Vec<TargetCheck>,
    before: Option<RunSummary>,
    works: Option<Value>,
}

fn list(global: &GlobalArguments, ids: &[String]) {
    if global.json {
        output::json(&json!(ids));
    } else {
        for id in ids {
            output::line(id);
        }
    }
}

fn show(
    global: &GlobalArguments,
    arguments: &SummaryArguments,
    shown: SummaryView,
) -> Result<(), CommandFailure> {
    let SummaryView {
        found,
        checks,
        before,
        works,
    } = shown;
    let compared = before
        .as_ref()
        .map(|before| summary::compare(before, &found));
    if global.json {
        let mut shown =
            serde_json::to_value(&found).context("the summary cannot be written as JSON")?;
        if let Some(works) = works {
            shown["works"] = works;
        }
        if arguments.slo.is_some() {
            shown["slo"] = json!({ "ok": checks.iter().all(|check| check.ok), "checks": checks });
        }
        if let (Some(before), Some(compared)) = (&before, &compared) {
            shown["compare"] = json!({ "before": before.run, "figures": compared });
        }
        output::json(&shown);
        return Ok(());
    }
    let mut text = summary::text(&found, &checks);
    if let (Some(before), Some(compared)) = (before, compared) {
        text.push('\n');
        text.push_str(&summary::comparison_text(
            &before.run.run_id,
            &found.run.run_id,
            &compared,
        ));
    }
    output::text(&text);
    if let (Some(file), false) = (&arguments.html, global.quiet) {
        output::tell(&format!("the report is in {}", file.display()));
    }
    Ok(())
}

/// Reads the summary of the latest run in a directory.
fn works_of(directory: &Path) -> Result<Value, CommandFailure> {
    let file = directory.join("manifest.summary.json");
    let text = std::fs::read_to_string(&file).map_err(|_| {
        CommandFailure::Usage(format!(
            "{} holds no finished run: {} cannot be read",
            directory.display(),
            file.display()
        ))
    })?;
    serde_json::from_str(&text).map_err(|error| {
        CommandFailure::Failed(anyhow::anyhow!(
            "{} cannot be read: {error}",
            file.display()
        ))
    })
}

/// Formats the number of downloaded works in a directory, and the reasons of the missing ones.
fn works_text(works: &Value) -> String {
    let number = |key: &str| works[key].as_u64().unwrap_or(0);
    let (saved, failed, left) = (number("saved"), number("failed"), number("left"));
    let counts = ResultCounts::of_summary(works);
    let without_file = counts.map_or_else(
        || format!("{failed} without a file"),
        |counts| counts.without_file_in_words(),
    );
    let mut text = format!(
        "downloaded {saved} of {}; {without_file}; {left} waiting (retry later)",
        plural(saved + failed + left, "work")
    );
    for (reason, count) in works["reason_totals"].as_object().into_iter().flatten() {
        let meaning = Reason::read(reason)
            .map_or_else(|| reason.clone(), |known| known.sentence().to_owned());
        text.push_str(&format!("\n  {count}: {meaning} ({reason})"));
    }
    text.push('\n');
    text
}

/// Writes a page, which appears at its path only when complete.
pub(crate) fn write_page(file: &Path, page: &str) -> Result<(), CommandFailure> {
    write_whole(file, page).map_err(|error| {
        CommandFailure::Failed(anyhow::anyhow!(
            "{} cannot be written: {error}",
            file.display()
        ))
    })
}
