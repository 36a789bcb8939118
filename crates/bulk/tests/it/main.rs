//! What the bulk engine promises, whatever the job.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up has failed"
)]

// Items that end in one step share a commit.
mod common_ends;
// What responses and failures say about the network.
mod connectivity;
// A job that is not about works: pages, each fetched once and counted.
mod page_job;
// Whole runs of that job under simulated time: all items end, waits have names, runs are resumed.
mod runs;
// What becomes of works that share a file which is lost.
mod shared_files;
