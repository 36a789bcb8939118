//! The crate from outside: through its public interface, with real files and sockets.

#![expect(
    clippy::disallowed_methods,
    reason = "processes that share a directory run in real time"
)]

mod facade; // one call before each request: seed behaviours under a simulated clock
mod facade_processes; // the same across processes that share a directory, and across a fork
mod pull; // pulls from the origin's side, under a simulated clock
mod pull_world; // registries and file hosts for them
mod sources; // every source against answers of its real shape
mod support; // what tests share
