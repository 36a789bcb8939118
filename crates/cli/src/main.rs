//! The program `docstokg`.

use std::process::ExitCode;

/// Bodies use buffers of hundreds of kilobytes, and the system's allocator returns each of them to
/// the kernel.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    docstokg_cli::docstokg()
}
