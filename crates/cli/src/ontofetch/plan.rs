//! `ontofetch plan` and `plan-diff`: a plan of a pull, and its changes since an earlier plan.

use std::path::Path;
use std::process::ExitCode;

use docstokg_bulk::scheduler::{RunEnd, RunMode};
use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_ontology::lock::LockFile;
use docstokg_ontology::plan::{ChangedField, PlanDiff as Difference};
use docstokg_ontology::pull::imports::{ImportDepth, ImportRounds};
use docstokg_ontology::pull::{ProbeMode, PullEnding, PullOptions, PullOutcome};
use serde_json::json;

use super::arguments::{PlanArguments, PlanDiffArguments};
use super::run::{self, PullJob, PullResult};
use super::{pull, selection};
use crate::arguments::GlobalArguments;
use crate::exit::CommandFailure;
use crate::output;
use crate::view::size;

/// Runs `plan`.
pub(super) fn run(
    global: &GlobalArguments,
    arguments: &PlanArguments,
) -> Result<ExitCode, CommandFailure> {
    let done = planned(global, arguments)?;
    if let Some(path) = &arguments.lock_output {
        write(&done, path)?;
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
    let before = LockFile::read(&arguments.baseline)
        .map_err(|error| CommandFailure::Usage(error.to_string()))?;
    let done = planned(global, &arguments.plan)?;
    let after = LockFile::of(&done.results, &SystemClock.wall().to_string());
    let difference = Difference::between(&before, &after);
    if let Some(path) = &arguments.plan.lock_output {
        write(&done, path)?;
    }
    let has_failed = done.results.iter().any(|result| !result.status.is_good());
    let is_whole = !has_failed && done.ended == RunEnd::Complete;
    if arguments.update_baseline && is_whole {
        write(&done, &arguments.baseline)?;
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
    Ok(pull::code(&done))
}

fn planned(
    global: &GlobalArguments,
    arguments: &PlanArguments,
) -> Result<PullResult, CommandFailure> {
    let mut loaded = global.load()?;
    let asked = selection::asked(&arguments.selection, &mut loaded.ontology)?;
    let library = selection::library(&arguments.selection.library, &loaded.ontology);
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

fn write(done: &PullResult, path: &Path) -> Result<(), CommandFailure> {
    let lock = LockFile::of(&done.results, &SystemClock.wall().to_string());
    lock.write(path)
        .map_err(|error| CommandFailure::Failed(error.into()))
}

/// Formats one line of a plan.
pub(super) fn line(result: &PullOutcome) -> String {
    if result.status == PullEnding::Failed {
        let reason = result.reason.map_or("unknown", |reason| reason.as_str());
        let detail = result.detail.as_deref().unwrap_or_default();
        return format!("{}: not available ({reason}): {detail}", result.id);
    }
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    let size = result
        .content_length
        .map_or_else(|| "unknown".to_owned(), size);
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
