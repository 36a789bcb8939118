//! `ontofetch plan` and `plan-diff`: a plan of a pull, and its changes since an earlier plan.

use std::process::ExitCode;

use docstokg_bulk::scheduler::{RunEnd, RunMode};
use docstokg_ontology::lock::LockFile;
use docstokg_ontology::plan::{ChangedField, PlanDiff as Difference};
use docstokg_ontology::pull::imports::{ImportDepth, ImportRounds};
use docstokg_ontology::pull::{ProbeMode, PullEnding, PullOptions, PullOutcome};
use docstokg_telemetry::summary::bytes;
use serde_json::json;

use super::arguments::{PlanArguments, PlanDiffArguments};
use super::run::{self, PullJob, PullResult};
use super::{library_directory, lock_file, pull, selection};
use crate::arguments::GlobalArguments;
use crate::exit::{self, CommandFailure};
use crate::output;

/// Runs `plan`.
pub(super) fn run(
    global: &GlobalArguments,
    arguments: &PlanArguments,
) -> Result<ExitCode, CommandFailure> {
    let done = planned(global, arguments)?;
    if let Some(path) = &arguments.lock_output {
        lock_file::write(global, &done, path)?;
    }
    if global.json {
        let mut shown = json!({
            "ok": done.results.iter().all(|result| result.status.is_good()) && done.ended == RunEnd::Complete,
            "run_id": done.run_id,
            "plans": done.results,
        });
        pull::add_deferred(&mut shown, &done);
        output::json(&shown);
    } else {
        for result in &done.results {
            output::line(&line(result));
        }
        pull::show_deferred(&done);
        pull::tell_continuation(&done);
    }
    Ok(pull::code(&done))
}

/// Runs `plan-diff`.
pub(super) fn diff(
    global: &GlobalArguments,
    arguments: &PlanDiffArguments,
) -> Result<ExitCode, CommandFailure> {
    let before = baseline(global, arguments)?;
    let done = planned(global, &arguments.plan)?;
    let after = lock_file::of(&done);
    let difference = Difference::between(&before, &after);
    if let Some(path) = &arguments.plan.lock_output {
        lock_file::write(global, &done, path)?;
    }
    let has_failed = done.results.iter().any(|result| !result.status.is_good());
    let is_whole = !has_failed && done.ended == RunEnd::Complete;
    if arguments.update_baseline && is_whole {
        lock_file::write(global, &done, &arguments.baseline)?;
    }
    if global.json {
        let mut shown =
            json!({ "ok": is_whole, "is_same": difference.is_empty(), "diff": difference });
        pull::add_deferred(&mut shown, &done);
        output::json(&shown);
    } else {
        output::line(&text(&difference));
        for result in done
            .results
            .iter()
            .filter(|result| !result.status.is_good())
        {
            output::line(&line(result));
        }
        pull::show_deferred(&done);
        pull::tell_continuation(&done);
    }
    let code = pull::code(&done);
    if arguments.exit_code && code == ExitCode::SUCCESS && !difference.is_empty() {
        return Ok(ExitCode::from(exit::EXIT_FAILED));
    }
    Ok(code)
}

fn planned(
    global: &GlobalArguments,
    arguments: &PlanArguments,
) -> Result<PullResult, CommandFailure> {
    let mut loaded = global.load()?;
    let asked = selection::asked(&arguments.selection, &mut loaded.ontology)?;
    let library =
        library_directory::library(global, &arguments.selection.library, &loaded.ontology);
    let probes = if arguments.no_planner_probes {
        ProbeMode::Skip
    } else {
        ProbeMode::Send
    };
    run::execute(
        global,
        loaded,
        PullJob {
            command: "plan",
            imports: ImportRounds::new(ImportDepth::None, &asked),
            asked,
            library,
            options: PullOptions {
                mode: RunMode::ListOnly,
                probes,
                since: selection::since(arguments.selection.since.as_deref())?,
                ..PullOptions::default()
            },
        },
    )
}

/// Reads the earlier plan. With `--update-baseline` a missing file counts as an empty plan.
fn baseline(
    global: &GlobalArguments,
    arguments: &PlanDiffArguments,
) -> Result<LockFile, CommandFailure> {
    let path = &arguments.baseline;
    if path.exists() {
        return lock_file::read(global, path);
    }
    if arguments.update_baseline {
        return Ok(LockFile::of(&[], ""));
    }
    Err(CommandFailure::Usage(format!(
        "there is no earlier plan {}; --update-baseline writes this plan as the first one",
        path.display()
    )))
}

/// Formats one line of a plan.
pub(super) fn line(result: &PullOutcome) -> String {
    if result.status == PullEnding::Failed {
        let reason = result.reason.map_or("unknown", |reason| reason.as_str());
        let detail = result.detail.as_deref().unwrap_or_default();
        return format!("{}: not available ({reason}): {detail}", result.id);
    }
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    let size = result.content_length;
    let size = size.map_or_else(|| "unknown".to_owned(), bytes);
    format!(
        "{}: {} from {}\n    version {}, licence {}, size {size}, last change {}",
        result.id,
        result.url.as_deref().unwrap_or_default(),
        result.resolver.as_deref().unwrap_or_default(),
        known(&result.version),
        known(&result.license),
        known(&result.last_modified)
    )
}

fn text(difference: &Difference) -> String {
    if difference.is_empty() {
        return "nothing has changed".to_owned();
    }
    let mut lines: Vec<String> = Vec::new();
    lines.extend(difference.added.iter().map(|id| format!("+ {id}")));
    lines.extend(difference.removed.iter().map(|id| format!("- {id}")));
    for changed in &difference.changed {
        lines.push(format!("~ {}", changed.id));
        lines.extend(changed.fields.iter().map(field));
    }
    lines.join("\n")
}

fn field(field: &ChangedField) -> String {
    let shown = |value: &Option<String>| value.clone().unwrap_or_default();
    format!(
        "    {}: {} -> {}",
        field.field,
        shown(&field.before),
        shown(&field.after)
    )
}
