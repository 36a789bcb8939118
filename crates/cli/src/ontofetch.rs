//! The program `ontofetch`: ontologies, planned, pulled, verified, versioned.
//!
//! Each command has a file. Configuration, state, network, output, progress and telemetry are those
//! of `docstokg`. The programs share a state directory, and with it one budget for every host.

mod arguments;
mod contexts;
mod demo;
mod diff;
mod doctor;
mod files;
mod init;
mod library_directory;
mod lock_file;
mod plan;
mod prune;
mod pull;
mod report;
mod rl;
mod run;
mod selection;
mod show;
mod validate;

use std::process::ExitCode;

use crate::{commands, program};
use arguments::{OntofetchArguments, OntofetchCommand, RlCommand};

/// Returns the definition of the command line.
#[cfg(test)]
pub(crate) fn command_line() -> clap::Command {
    <OntofetchArguments as clap::CommandFactory>::command()
}

/// Runs `ontofetch`.
#[must_use]
pub fn main() -> ExitCode {
    program::run_as_ontofetch();
    crate::catch_signals();
    let arguments: OntofetchArguments = match crate::parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    crate::prepare();
    let global = &arguments.global;
    crate::command_line::remember_context(global);
    let outcome = match &arguments.command {
        OntofetchCommand::Pull(pull) => pull::run(global, pull),
        OntofetchCommand::Plan(plan) => plan::run(global, plan),
        OntofetchCommand::PlanDiff(diff) => plan::diff(global, diff),
        OntofetchCommand::Show(show) => show::run(global, show),
        OntofetchCommand::List(list) => show::list(global, list),
        OntofetchCommand::Diff(arguments) => diff::run(global, arguments),
        OntofetchCommand::Validate(validate) => validate::run(global, validate),
        OntofetchCommand::Prune(prune) => prune::run(global, prune),
        OntofetchCommand::Doctor(arguments) => doctor::run(global, arguments),
        OntofetchCommand::Rl(rl) => match &rl.command {
            RlCommand::Doctor { keys, events } => rl::run(global, keys, events.as_deref()),
        },
        OntofetchCommand::Limits(limits) => commands::limits::run(global, limits),
        OntofetchCommand::Breaker(breaker) => commands::breaker::run(global, breaker),
        OntofetchCommand::Init(init) => init::run(global, init),
        OntofetchCommand::Config(config) => commands::config::run(global, config),
        OntofetchCommand::Summary(summary) => commands::summary::run(global, summary),
        OntofetchCommand::Demo(demo) => demo::run(global, demo),
    };
    crate::output::exit_code(outcome.unwrap_or_else(|failure| failure.report(global.json)))
}
