//! `docstokg config`: show, check, schema, import.

use std::process::ExitCode;

use docstokg_config::{Problem, Problems, document};
use serde_json::json;

use super::import;
use crate::arguments::{ConfigArguments, ConfigCommand, Global};
use crate::configuration::Settings;
use crate::exit::{self, Failure};
use crate::output;

/// Runs the command.
pub(crate) fn run(global: &Global, arguments: &ConfigArguments) -> Result<ExitCode, Failure> {
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

fn check(global: &Global, file: Option<&std::path::Path>) -> Result<ExitCode, Failure> {
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
        Err(Failure::Config(Problems(problems))) if global.json => {
            output::json(&json!({ "ok": false, "problems": list(&problems) }));
            Ok(ExitCode::from(exit::USAGE))
        }
        Err(failure) => Err(failure),
    }
}

/// Formats problems as JSON.
pub(super) fn list(problems: &[Problem]) -> Vec<serde_json::Value> {
    let shown = |problem: &Problem| {
        json!({
            "where": problem.source.to_string(),
            "key": problem.key,
            "message": problem.message,
            "suggestion": problem.suggestion,
        })
    };
    problems.iter().map(shown).collect()
}
