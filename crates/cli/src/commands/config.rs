//! `docstokg config`: show, check, schema, import.

use std::process::ExitCode;

use docstokg_config::{ConfigProblem, ConfigProblems, document};
use serde_json::json;

use super::import;
use crate::arguments::{ConfigArguments, ConfigCommand, GlobalArguments};
use crate::configuration::Settings;
use crate::exit::{self, CommandFailure};
use crate::output;

/// Runs the command.
pub(crate) fn run(
    global: &GlobalArguments,
    arguments: &ConfigArguments,
) -> Result<ExitCode, CommandFailure> {
    match &arguments.command {
        ConfigCommand::Show => {
            output::json(&document::show(&global.load()?.settings));
        }
        ConfigCommand::Check { file } => return check(global, file.as_deref()),
        ConfigCommand::Schema { markdown: true } => {
            let keys = document::keys::<Settings>();
            output::data(document::markdown(&keys).as_bytes());
        }
        ConfigCommand::Schema { markdown: false } => {
            output::json(&document::schema::<Settings>("docstokg configuration"));
        }
        ConfigCommand::Import { files, out } => return import::run(global, files, out.as_deref()),
    }
    Ok(ExitCode::SUCCESS)
}

fn check(
    global: &GlobalArguments,
    file: Option<&std::path::Path>,
) -> Result<ExitCode, CommandFailure> {
    let checked = match file {
        Some(path) => global.load_with(Some(path.to_owned())),
        None => global.load(),
    };
    match checked {
        Ok(loaded) => {
            if global.json {
                let warnings = list(&loaded.settings.hub.warnings);
                output::json(&json!({ "ok": true, "problems": [], "warnings": warnings }));
            } else if !global.quiet {
                output::tell("configuration OK");
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(CommandFailure::Config(ConfigProblems(problems))) if global.json => {
            output::json(&json!({ "ok": false, "problems": list(&problems) }));
            Ok(ExitCode::from(exit::EXIT_USAGE))
        }
        Err(failure) => Err(failure),
    }
}

/// Formats problems as JSON.
pub(super) fn list(problems: &[ConfigProblem]) -> Vec<serde_json::Value> {
    let shown = |problem: &ConfigProblem| {
        json!({
            "where": problem.source.to_string(),
            "key": problem.key,
            "message": problem.message,
            "suggestion": problem.suggestion,
        })
    };
    problems.iter().map(shown).collect()
}
