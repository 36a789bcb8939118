//! `ontofetch init`: an example of `sources.yaml`.

use std::process::ExitCode;

use docstokg_hub::files::write_whole;
use serde_json::json;

use super::arguments::InitArguments;
use crate::arguments::GlobalArguments;
use crate::exit::CommandFailure;
use crate::{command_line, output};

/// The example, which the tests read.
pub(super) const EXAMPLE_SOURCES: &str = include_str!("sources.example.yaml");

/// Runs the command.
pub(super) fn run(
    global: &GlobalArguments,
    arguments: &InitArguments,
) -> Result<ExitCode, CommandFailure> {
    let path = &arguments.file;
    if path.exists() {
        return Err(CommandFailure::Usage(format!(
            "{} is there already; choose another name",
            path.display()
        )));
    }
    write_whole(path, EXAMPLE_SOURCES).map_err(|error| {
        CommandFailure::Failed(anyhow::anyhow!(
            "{} cannot be written: {error}",
            path.display()
        ))
    })?;
    if global.json {
        output::json(&json!({ "ok": true, "file": path.display().to_string() }));
    } else {
        output::line(&format!(
            "wrote {}; next: {}",
            path.display(),
            command_line::command(&["plan", "--spec", &path.display().to_string()])
        ));
    }
    Ok(ExitCode::SUCCESS)
}
