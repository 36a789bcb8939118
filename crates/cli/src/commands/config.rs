//! `docstokg config`: show, check, schema.

use std::process::ExitCode;

use docstokg_hub::config::load::Problems;
use docstokg_hub::config::{Problem, keys, show};
use serde_json::json;

use crate::arguments::{ConfigArguments, ConfigCommand, Global};
use crate::exit::{self, Failure};
use crate::output;

/// Runs the command.
pub(crate) fn run(global: &Global, arguments: &ConfigArguments) -> Result<ExitCode, Failure> {
    match &arguments.command {
        ConfigCommand::Show => {
            let (_, settings) = global.load()?;
            output::json(&show::settings_json(&settings));
        }
        ConfigCommand::Check { file } => return check(global, file.as_deref()),
        ConfigCommand::Schema { markdown: true } => output::data(keys::markdown().as_bytes()),
        ConfigCommand::Schema { markdown: false } => output::json(&keys::schema()),
    }
    Ok(ExitCode::SUCCESS)
}

fn check(global: &Global, file: Option<&std::path::Path>) -> Result<ExitCode, Failure> {
    let checked = match file {
        Some(path) => global.load_with(Some(path.to_owned())),
        None => global.load(),
    };
    match checked {
        Ok((_, settings)) => {
            if global.json {
                output::json(
                    &json!({ "ok": true, "problems": [], "warnings": list(&settings.warnings) }),
                );
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

fn list(problems: &[Problem]) -> Vec<serde_json::Value> {
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
