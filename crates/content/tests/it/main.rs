//! What the content side promises, room by room.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set itself up has failed"
)]

// Identifiers: every spelling has one form, and that form reads back as itself.
mod identifiers;
// Lists as people and scripts make them.
mod input_shapes;
// Lists of works: three shapes, read lazily, a bad line never stops them.
mod lists;
// Lists of reference managers and databases, in the shapes that they write.
mod reference_files;
// File names: safe everywhere, never two works under one.
mod names;
// Bytes: what arrived, whatever the headers said.
mod sniff;
// Pages that stand in the way, and those that only look like it.
mod bot_challenges;
// Works: what is learned never overwrites what was written.
mod works;
// The scripted web that resolvers are asked through.
mod scripted_web;
// Resolvers, one by one: what they ask, what they read, what they make of nonsense.
mod resolvers;
// The simulated web: every resolver leads to the copies that are there, and to no others.
mod simulated;
// A simulated web, a hub and a directory that whole runs share.
mod run_world;
// Whole runs: what is fetched, when, and how often.
mod runs;
// Whole runs with hosts that fail, throttle or ask for pauses.
mod failing_hosts;
// Single works whose hosts answer oddly: what is asked next, and what is not asked again.
mod odd_responses;
// Landing pages that are the file itself, as services name them.
mod page_files;
// Pages of many shapes: which of their files is the work's, and which never is.
mod foreign_files_of_page;
mod pages;
// What stood between the user and the file, and the reason that is recorded for it.
mod reasons;
// Directories of runs that an earlier version began: taken up, with one spelling of reasons.
mod migration;
// The next step of a work against an oracle: ends, asks in time, a bounded number of times.
mod next_steps;
// Runs that wait: for whom, how long, and when they stop waiting; runs without a network.
mod deferred_runs;
// Deferred works whose host may be asked earlier than it said.
mod early_reopening;
// The remaining time that a run shows, against its real end.
mod remaining_time;
// Pages that are made to cost time and memory.
mod hostile_pages;
// Pages and lists that are nested far deeper than any stack.
mod nested;
// What others wrote, changed at random: every reader ends, and a reader that panics fails one work.
mod fuzz;
// Bounds on time hold in every state that a work can wait in.
mod item_deadlines;
// Bulk runs at hosts whose limits are known, and at hosts whose limits have to be found.
mod hidden_limits;
// Hidden limits drawn by chance.
mod random_plans;
// Hosts that are down for a while: no work is lost, and few requests meet the outage.
mod outages;
