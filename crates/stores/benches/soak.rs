//! A thousand processes killed in the middle of an operation, on every shared store: nothing
//! breaks, no window is exceeded.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a soak reports to its caller"
)]
#![allow(dead_code, reason = "tests use more of what is shared with them")]

use std::time::Instant;

#[path = "../tests/it/killed_processes.rs"]
mod killed_processes;
#[path = "../tests/it/server.rs"]
mod server;
#[path = "../tests/it/worker.rs"]
mod worker;

#[allow(clippy::disallowed_methods, reason = "it takes real time")]
fn main() {
    if std::env::var_os("WORKER_DOES").is_some() {
        return worker::work();
    }
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let kills = match arguments.as_slice() {
        [] => 1_000,
        [option, count] if option == "--kills" => count.parse().expect("a number of kills"),
        other => panic!("unknown options {other:?}"),
    };
    let directory = tempfile::tempdir().expect("a directory");
    let server = server::Server::start();
    let path = |name: &str| directory.path().join(name).display().to_string();
    for location in [path("limits.shm"), path("state.sqlite"), server.dsn()] {
        let start = Instant::now();
        killed_processes::kill(&location, &*worker::open(&location), kills);
        println!(
            "ok     {location}: {kills} processes killed, no window exceeded, \
             never wedged ({:.0} s)",
            start.elapsed().as_secs_f64()
        );
    }
}
