//! What a download says about itself to other processes.

use docstokg_bulk::directory::Directory;
use docstokg_bulk::scheduler::RunMode;

use super::resume;
use crate::arguments::GlobalArguments;
use crate::exit::CommandFailure;
use crate::session::Session;
use crate::telemetry::RunRecording;
use crate::view::{ResumeCommands, RunPlaces, StatusPublisher};
use crate::{state, telemetry};

/// Describes a run for other processes. Nothing is written yet.
pub(super) fn begin(
    global: &GlobalArguments,
    session: &Session<'_>,
    directory: &Directory,
    recording: &RunRecording,
) -> Result<StatusPublisher, CommandFailure> {
    let path = &directory.path;
    let telemetry = telemetry::database(global, &session.loaded.telemetry)?;
    let places = RunPlaces {
        directory: path.clone(),
        state_directory: state::directory(global)?,
        telemetry: telemetry.filter(|_| recording.observer().is_some()),
    };
    let resume = ResumeCommands {
        without_inputs: resume::command(true, path),
        with_inputs: resume::command(false, path),
    };
    Ok(StatusPublisher::new(&recording.run, places, resume))
}

/// Returns the name under which a run is recorded: one that sends nothing has a name of its own.
pub(super) const fn command_name(mode: RunMode) -> &'static str {
    match mode {
        RunMode::Full => "download",
        RunMode::DryRun => "download --dry-run",
        RunMode::ListOnly => "download --list-only",
    }
}
