//! The bulk engine: runs a [`Job`](job::Job) over hundreds of thousands of items, politely and as
//! fast as the limits allow.
//!
//! [`queue`] is the run's file: every item, where it stands, what became of it. [`lane`] names what
//! items wait for, [`bounds`] how much of it may be active, and [`scheduler`] decides which item
//! goes next. [`run_context`] has what scheduler and job share. [`progress`] can always say which
//! host a run waits for, until when and why. [`directory`] and [`staging`] look after files that are
//! not finished; [`manifest`] writes the records. What an item is, which step comes next and what
//! running it means is the job's.

pub mod blocking;
pub mod bounds;
pub mod bulk_request;
pub mod connectivity;
pub mod deferral;
pub mod digest;
pub mod directory;
pub mod job;
pub mod lane;
mod lanes;
pub mod manifest;
pub mod panic_containment;
pub mod progress;
pub mod queue;
mod remaining;
pub mod run_clock;
pub mod run_context;
pub mod scheduler;
pub mod seconds;
mod silence;
pub mod staging;
mod watches;
