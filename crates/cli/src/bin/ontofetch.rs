//! The program `ontofetch`.

use std::process::ExitCode;

/// As in `docstokg`, because bodies use large buffers.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    docstokg_cli::ontofetch::main()
}
