//! The bulk engine: runs a [`Job`](job::Job) over hundreds of thousands of items, as fast as the
//! limits allow.
//!
//! - [`queue`] is the file of the run, with every item, its state and its result.
//! - [`lane`] names the resources that items wait for, and [`bounds`] limits their use.
//! - [`scheduler`] chooses the next item, and [`run_context`] is shared by scheduler and job.
//! - [`progress`] names the hosts that a run waits for, with time and cause; [`run_snapshot`]
//!   publishes them for other processes.
//! - [`directory`] and [`staging`] manage unfinished files; [`manifest`] writes the records.
//!
//! The job defines items and steps.

pub mod blocking;
pub mod bounds;
pub mod bulk_request;
pub mod connectivity;
pub mod deferral;
pub mod digest;
pub mod directory;
pub mod job;
pub mod join;
pub mod lane;
mod lanes;
pub mod manifest;
pub mod panic_containment;
pub mod progress;
pub mod queue;
mod remaining;
pub mod run_clock;
pub mod run_context;
pub mod run_process;
pub mod run_snapshot;
pub mod scheduler;
pub mod seconds;
mod silence;
pub mod staging;
mod watches;
