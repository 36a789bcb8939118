//! The programs `docstokg` and `ontofetch`.
//!
//! Each command of `docstokg` has a file under `commands`, each command of `ontofetch` a file under
//! `ontofetch`. Both programs share configuration, state, network, output, progress and telemetry.
//! Several commands of `docstokg` share `known`, `services` and `stated`.

mod arguments;
mod command_line;
#[cfg(test)]
mod command_reference;
mod commands;
mod configuration;
mod exit;
mod interrupts;
mod known;
mod network;
pub mod ontofetch;
mod output;
mod program;
mod quantity;
mod run_registry;
mod services;
mod session;
mod state;
mod stated;
mod stdout_at_start;
mod system;
mod telemetry;
mod view;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{DocstokgArguments, DocstokgCommand};

/// Reads a command line. For an invalid command line, prints the explanation and returns the exit
/// code.
fn parse<T: Parser>() -> Result<T, ExitCode> {
    T::try_parse().map_err(|error| {
        // clap knows the output and the exit code of help and errors. A closed pipe is not an
        // error. Arguments in its messages lose their control characters.
        if !error.use_stderr() {
            output::help(&error.render());
        } else if std::env::args_os()
            .any(|argument| argument.to_string_lossy().contains(char::is_control))
        {
            output::tell(error.render().to_string().trim_end());
        } else {
            let _ = error.print();
        }
        let code = u8::try_from(error.exit_code()).unwrap_or(exit::EXIT_USAGE);
        output::exit_code(ExitCode::from(code))
    })
}

/// Catches signals before the command line is read, and so before anything is written.
fn catch_signals() {
    if let Err(error) = interrupts::catch() {
        // Without them the program works, and ends by a signal as by default.
        output::print_note(&format!("warning: {error:#}"));
    }
}

/// Prepares the process for many connections, and for files that other programs may damage.
fn prepare() {
    system::report_panics_in_words();
    system::raise_open_files_limit();
    // A corrupt mapped file would otherwise end the process. With the handler the store reports an
    // error.
    let _ = docstokg_hub::stores::multiprocess::survive_file_signals();
}

/// Runs `docstokg`.
#[must_use]
pub fn docstokg() -> ExitCode {
    catch_signals();
    let arguments: DocstokgArguments = match parse() {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    prepare();
    let global = &arguments.global;
    command_line::remember_context(global);
    let outcome = match &arguments.command {
        DocstokgCommand::Fetch(fetch) => commands::fetch::run(global, fetch),
        DocstokgCommand::Download(download) => commands::download::run(global, download),
        DocstokgCommand::Explain(explain) => commands::explain::run(global, explain),
        DocstokgCommand::Demo(demo) => commands::demo::run(global, demo),
        DocstokgCommand::Serve(serve) => commands::serve::run(global, serve),
        DocstokgCommand::Limits(limits) => commands::limits::run(global, limits),
        DocstokgCommand::Breaker(breaker) => commands::breaker::run(global, breaker),
        DocstokgCommand::Cache(cache) => commands::cache::run(global, cache),
        DocstokgCommand::Export(export) => commands::export::run(global, export),
        DocstokgCommand::Status(status) => commands::status::run(global, status),
        DocstokgCommand::Why(why) => commands::why::run(global, why),
        DocstokgCommand::Summary(summary) => commands::summary::run(global, summary),
        DocstokgCommand::Config(config) => commands::config::run(global, config),
    };
    output::exit_code(outcome.unwrap_or_else(|failure| failure.report(global.json)))
}
