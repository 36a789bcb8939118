//! The program as users and scripts run it: real processes against real sockets.

#![allow(clippy::expect_used, reason = "a failed expectation is a failed test")]

// Every section of the configuration: checked, shown, described.
mod configuration;
// Works in, files out.
mod download;
// Lists from pipes, and what is no list.
mod list_inputs;
// Runs that are killed, find the disk full, or meet another run, and are continued.
mod interrupted_runs;
// The job of a directory: stopped and resumed, with its options and the trust of its inputs.
mod jobs;
// Output that cannot be written, signals, and places where nothing may be written.
mod process_ends;
// Stored answers, between runs and processes.
mod cache;
// serve: other programs through the gateway.
mod gateway;
// Works that a query finds.
mod queries;
// The files and messages at the end of a download; cookies as a browser has them.
mod final_reports;
// fetch: answers, refusals, faults, files.
mod fetch;
// config import: files of DocsToKG.
mod config_import;
// Help, wrong flags, configuration.
mod help_and_usage;
// How a run stands, for other processes; what happened to one work.
mod run_status;
// The figures of a run.
mod summary;
// the lines of lists, results.csv, and exports
mod results;
// State that processes share.
mod shared_state;
// The commands of an operator.
mod operator;
// Limits that are learned, with a Redis store.
mod redis_limits;
// A Redis server of our own.
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../../../stores/tests/it/server.rs"]
mod redis_server;
// Starting the program and an origin for it.
mod support;
// A web of several hosts, and downloads from it.
mod download_world;
// Starting real servers: nginx and HAProxy.
mod servers;
// A real nginx that ends connections in the ordinary ways.
mod nginx;
// Malicious answers, and odd ones.
mod malicious_responses;
// Directories, links and files in the way of a run.
mod blocked_paths;
// ontofetch: its commands, against simulated registries.
mod ontofetch;
// ontofetch: processes that share a host's budget with docstokg, and processes that are killed.
mod ontofetch_processes;
// ontofetch: files of every kind pulled from loopback, whole, packed, cut and hostile.
mod ontofetch_files;
// ontofetch: what may be fetched, and who may change the library.
mod ontofetch_guards;
// ontofetch: flags and commands that are used less often.
mod ontofetch_commands;
// ontofetch: lock files, reports, catalogs, differences and the library.
mod ontofetch_results;
