//! `ontofetch init`: an example of `sources.yaml`.

use std::process::ExitCode;

use docstokg_hub::files::write_whole;
use serde_json::json;

use super::arguments::Init;
use crate::arguments::Global;
use crate::exit::Failure;
use crate::output;

/// The example. It is read by the tests.
pub(super) const EXAMPLE: &str = include_str!("sources.example.yaml");

/// Runs the command.
pub(super) fn run(global: &Global, arguments: &Init) -> Result<ExitCode, Failure> {
    let path = &arguments.file;
    if path.exists() {
        return Err(Failure::Usage(format!(
            "{} is there already; choose another name",
            path.display()
        )));
    }
    write_whole(path, EXAMPLE).map_err(|error| {
        Failure::Failed(anyhow::anyhow!(
            "{} cannot be written: {error}",
            path.display()
        ))
    })?;
    if global.json {
        output::json(&json!({ "ok": true, "file": path.display().to_string() }));
    } else {
        output::line(&format!(
            "wrote {}; next: ontofetch plan --spec {}",
            path.display(),
            path.display()
        ));
    }
    Ok(ExitCode::SUCCESS)
}
