//! The `docstokg` program: a table of contents. Each command has a file of its own under
//! `commands`.

mod arguments;
mod commands;
mod configuration;
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

/// Bodies use buffers of hundreds of kilobytes, and the system's allocator returns each of them to
/// the kernel.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // clap knows where help and errors go and which exit code they have; a closed pipe is
            // not an error. Arguments that it repeats are shown without control characters.
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
    system::raise_open_files_limit();
    system::silence_panics_of(docstokg_content::evidence::THREAD_NAME);
    // Without it a corrupt mapped file would end the process; with it the store reports an error.
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
