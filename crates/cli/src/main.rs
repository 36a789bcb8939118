//! The `docstokg` program: a table of contents. Each command has a file of its own under
//! `commands`.

mod arguments;
mod commands;
mod exit;
mod network;
mod output;
mod state;
mod system;
mod telemetry;
mod view;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};

/// Buffers of bodies come and go in hundreds of kilobytes; the system's allocator gives each back
/// to the kernel.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // clap knows where help and errors go and which exit code they have; a closed pipe is
            // nobody's fault. What it repeats of an argument is shown as anything else is: without
            // control characters.
            if error.use_stderr()
                && std::env::args_os()
                    .any(|argument| argument.to_string_lossy().contains(char::is_control))
            {
                output::tell(error.render().to_string().trim_end());
            } else {
                let _ = error.print();
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(exit::USAGE));
        }
    };
    system::open_as_many_files_as_granted();
    system::keep_quiet_about(docstokg_content::evidence::THREAD_NAME);
    // Without it a damaged file would end the program; with it the store says so.
    let _ = docstokg_hub::stores::multiprocess::survive_file_signals();
    let global = &arguments.global;
    let outcome = match &arguments.command {
        Command::Fetch(fetch) => commands::fetch::run(global, fetch),
        Command::Download(download) => commands::download::run(global, download),
        Command::Explain(explain) => commands::order::run(global, explain),
        Command::Demo(demo) => commands::demo::run(global, demo),
        Command::Limits(limits) => commands::limits::run(global, limits),
        Command::Breaker(breaker) => commands::breaker::run(global, breaker),
        Command::Summary(summary) => commands::summary::run(global, summary),
        Command::Config(config) => commands::config::run(global, config),
    };
    outcome.unwrap_or_else(|failure| failure.report(global.json))
}
