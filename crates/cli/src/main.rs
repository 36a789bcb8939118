//! The program `docstokg`.

use std::process::ExitCode;

/// Bodies use buffers of hundreds of kilobytes, which the system's allocator would return to the
/// kernel each time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    docstokg_cli::docstokg()
}
