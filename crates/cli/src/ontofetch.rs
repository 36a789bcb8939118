//! The program `ontofetch`: ontologies, planned, pulled, verified, versioned.
//!
//! Each command has a file of its own. Configuration, state, network, output, progress and
//! telemetry are those of `docstokg`: the programs share a state directory, and with it one budget
//! for every host.

mod arguments;
mod contexts;
mod demo;
mod diff;
mod doctor;
mod files;
mod init;
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
use arguments::{Arguments, Command, RlCommand};

/// Runs `ontofetch`.
#[must_use]
pub fn main() -> ExitCode {
    program::run_as_ontofetch();
    let arguments: Arguments = match crate::parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    crate::prepare();
    let global = &arguments.global;
    let outcome = match &arguments.command {
        Command::Pull(pull) => pull::run(global, pull),
        Command::Plan(plan) => plan::run(global, plan),
        Command::PlanDiff(diff) => plan::diff(global, diff),
        Command::Show(show) => show::run(global, show),
        Command::List(list) => show::list(global, list),
        Command::Diff(arguments) => diff::run(global, arguments),
        Command::Validate(validate) => validate::run(global, validate),
        Command::Prune(prune) => prune::run(global, prune),
        Command::Doctor(arguments) => doctor::run(global, arguments),
        Command::Rl(rl) => match &rl.command {
            RlCommand::Doctor { keys, events } => rl::run(global, keys, events.as_deref()),
        },
        Command::Init(init) => init::run(global, init),
        Command::Config(config) => commands::config::run(global, config),
        Command::Summary(summary) => commands::summary::run(global, summary),
        Command::Demo(demo) => demo::run(global, demo),
    };
    crate::output::exit_code(outcome.unwrap_or_else(|failure| failure.report(global.json)))
}
