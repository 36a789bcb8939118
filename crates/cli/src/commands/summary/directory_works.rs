//! The works of a directory that a summary is about: known at any time, with or without the figures
//! of its requests.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use docstokg_content::results::ResultCounts;
use docstokg_content::run_status::RunStatus;
use serde_json::{Value, json};

use crate::arguments::GlobalArguments;
use crate::commands::status::of_directory;
use crate::exit::CommandFailure;
use crate::output;
use crate::view::status::lines;
use crate::view::terminal_width;

/// The works of a directory.
pub(super) struct DirectoryWorks {
    pub(super) status: RunStatus,
    /// The contents of `manifest.summary.json`; `None` while the run works, or if it was killed.
    summary: Option<Value>,
}

impl DirectoryWorks {
    /// Reads the works of a directory.
    pub(super) fn read(directory: &Path) -> Result<Self, CommandFailure> {
        let status = of_directory(directory)?;
        let summary = summary_of(directory, &status);
        Ok(Self { status, summary })
    }

    /// Returns the id of the latest run.
    pub(super) fn run_id(&self) -> Option<&str> {
        let run = self.status.run.as_ref()?;
        Some(run.run_id.as_str())
    }

    /// Returns the database that has the figures of its requests, if that is still there.
    pub(super) fn telemetry(&self) -> Option<PathBuf> {
        let path = self.status.run.as_ref()?.telemetry.clone();
        path.filter(|path| path.exists())
    }

    /// Prints the status, and the lines of the list that are not works of their own.
    pub(super) fn print(&self) {
        let mut lines = lines(&self.status, terminal_width(&std::io::stdout()));
        if let Some(mut counts) = self.summary.as_ref().and_then(ResultCounts::of_summary) {
            // The status has the known works already.
            counts.known = 0;
            if let Some(other) = counts.lines_in_words() {
                lines.extend(["list".to_owned(), format!("  {other}")]);
            }
        }
        output::line(&(lines.join("\n") + "\n"));
    }

    /// Adds the works to the JSON of a summary.
    pub(super) fn add_to(&self, shown: &mut Value) {
        if let Some(summary) = &self.summary {
            shown["works"] = summary.clone();
        }
        shown["status"] = json!(self.status);
    }

    /// Ends a summary that has no figures of requests, and says why.
    pub(super) fn end_alone(&self, global: &GlobalArguments, why: &CommandFailure) -> ExitCode {
        if global.json {
            let mut shown = json!({});
            self.add_to(&mut shown);
            output::json(&shown);
        }
        if !global.quiet {
            let why = why.message();
            output::print_note(&format!("the figures of its requests are not there: {why}"));
        }
        ExitCode::SUCCESS
    }
}

/// Reads the summary of the latest run in a directory.
fn summary_of(directory: &Path, status: &RunStatus) -> Option<Value> {
    let text = std::fs::read_to_string(directory.join("manifest.summary.json")).ok()?;
    let works: Value = serde_json::from_str(&text).ok()?;
    let run = status.run.as_ref()?;
    (works["run_id"] == run.run_id.as_str()).then_some(works)
}
