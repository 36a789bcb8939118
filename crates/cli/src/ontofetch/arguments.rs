//! The command line of `ontofetch`.

#![expect(
    clippy::doc_markdown,
    reason = "these comments are the help text, which has no markup"
)]

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use docstokg_ontology::pull::imports::ImportDepth;

use crate::arguments::{
    BreakerArguments, ConfigArguments, GlobalArguments, LimitsArguments, SummaryArguments,
};
use crate::quantity;

/// Downloads ontologies politely: planned, pulled, verified, versioned.
#[derive(Debug, Parser)]
#[command(
    name = "ontofetch",
    version,
    after_help = "Exit codes: 0 done, 1 something failed, 2 usage or config, \
                  3 refused for now by breaker or limiter, 130 interrupted."
)]
pub(super) struct OntofetchArguments {
    #[command(flatten)]
    pub global: GlobalArguments,
    #[command(subcommand)]
    pub command: OntofetchCommand,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(super) enum OntofetchCommand {
    /// Download ontologies into the library, each version beside the others
    Pull(Box<PullArguments>),
    /// Show what would be downloaded: source, address, version, licence, size, last change
    Plan(Box<PlanArguments>),
    /// Compare a plan with an earlier one
    PlanDiff(Box<PlanDiffArguments>),
    /// Show an ontology of the library
    Show(ShowArguments),
    /// List the ontologies of the library
    List(ListArguments),
    /// Show what changed between two versions, term by term
    Diff(DiffArguments),
    /// Read files to their end, and show what is wrong and where
    Validate(ValidateArguments),
    /// Remove old versions
    Prune(PruneArguments),
    /// Check endpoints, disk, credentials, clock and store
    Doctor(DoctorArguments),
    /// Show the rates of services
    Rl(RlArguments),
    /// Show the limits in force and what waits for them
    Limits(LimitsArguments),
    /// Show, open and close circuit breakers, for all processes
    Breaker(BreakerArguments),
    /// Write an example sources.yaml
    Init(InitArguments),
    /// Show, check and describe the configuration
    Config(ConfigArguments),
    /// Summarise a run: requests, waits, paused hosts, failures
    Summary(SummaryArguments),
    /// Pull from built-in simulated registries; no internet is used
    Demo(PullDemoArguments),
}

/// Where the library is.
#[derive(Debug, Args)]
pub(super) struct LibraryFlag {
    /// Directory of the library [env: ONTOFETCH_LIBRARY]
    #[arg(long, value_name = "DIR", value_parser = quantity::local_path())]
    pub library: Option<PathBuf>,
}

/// Which ontologies, and where to look for them.
#[derive(Debug, Args)]
pub(super) struct SelectionArguments {
    /// Ontologies, such as hp or go; otherwise all of --spec
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// File that lists ontologies (sources.yaml)
    #[arg(long, value_name = "FILE")]
    pub spec: Option<PathBuf>,
    /// Source to use, in place of the preferred ones
    #[arg(long, value_name = "NAME")]
    pub resolver: Vec<String>,
    /// Formats wanted, the best first, joined by commas: owl,obo,json,ttl
    #[arg(long, value_name = "FORMATS")]
    pub target_formats: Option<String>,
    /// Address of the ontology, for the sources direct, skos and xbrl
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Also accept this licence (SPDX name, address or label); * accepts every one
    #[arg(long, value_name = "LICENCE")]
    pub accept_license: Vec<String>,
    /// Hosts that files may come from, joined by commas
    #[arg(long, value_name = "HOSTS")]
    pub allowed_hosts: Option<String>,
    /// Leave out what has not changed since this date (YYYY-MM-DD)
    #[arg(long, value_name = "DATE")]
    pub since: Option<String>,
    #[command(flatten)]
    pub library: LibraryFlag,
}

/// Arguments of `pull`.
#[derive(Debug, Args)]
pub(super) struct PullArguments {
    #[command(flatten)]
    pub selection: SelectionArguments,
    /// Download exactly what this lock file pins
    #[arg(long, value_name = "FILE")]
    pub lock: Option<PathBuf>,
    /// Write a lock file with what was downloaded
    #[arg(long, value_name = "FILE", value_parser = quantity::local_path())]
    pub lock_output: Option<PathBuf>,
    /// How far to follow imports: none, direct or closure
    #[arg(long, default_value = "none", value_name = "HOW")]
    pub imports: ImportDepth,
    /// Download also what has not changed
    #[arg(long)]
    pub force: bool,
    /// Only show what would be downloaded
    #[arg(long)]
    pub dry_run: bool,
    /// Maximum ontologies processed at once
    #[arg(
        long,
        value_name = "N",
        default_value_t = 32,
        value_parser = quantity::number(1..=1000)
    )]
    pub workers: u32,
    /// Longest wait for paused hosts at the end of a run, in seconds or as 2h
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = quantity::duration)]
    pub max_wait: Duration,
}

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub(super) struct PlanArguments {
    #[command(flatten)]
    pub selection: SelectionArguments,
    /// Send no HEAD requests for size and date
    #[arg(long)]
    pub no_planner_probes: bool,
    /// Write a lock file with the plan
    #[arg(long, value_name = "FILE", value_parser = quantity::local_path())]
    pub lock_output: Option<PathBuf>,
}

/// Arguments of `plan-diff`.
#[derive(Debug, Args)]
pub(super) struct PlanDiffArguments {
    #[command(flatten)]
    pub plan: PlanArguments,
    /// Earlier plan: a lock file
    #[arg(long, value_name = "FILE", default_value = "ontologies.lock.json")]
    pub baseline: PathBuf,
    /// Write the new plan over the earlier one, or as the first one
    #[arg(long)]
    pub update_baseline: bool,
    /// Exit with 1 if the plans differ
    #[arg(long)]
    pub exit_code: bool,
}

/// Arguments of `show`.
#[derive(Debug, Args)]
pub(super) struct ShowArguments {
    /// The ontology
    pub id: String,
    /// The version; otherwise the latest
    pub version: Option<String>,
    /// List all versions
    #[arg(long)]
    pub versions: bool,
    #[command(flatten)]
    pub library: LibraryFlag,
}

/// Arguments of `list`.
#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// List the sources instead
    #[arg(long)]
    pub sources: bool,
    #[command(flatten)]
    pub library: LibraryFlag,
}

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub(super) struct DiffArguments {
    /// The older version: a file, ID@VERSION or ID
    #[arg(value_name = "A")]
    pub older: String,
    /// The newer version: a file, ID@VERSION or ID
    #[arg(value_name = "B")]
    pub newer: String,
    /// Format of the output
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: DiffFormat,
    /// Exit with 1 if something differs, and with 2 if the versions cannot be compared
    #[arg(long)]
    pub exit_code: bool,
    #[command(flatten)]
    pub library: LibraryFlag,
}

/// The output format of `diff`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum DiffFormat {
    /// Plain text with at most 20 terms of each kind
    #[default]
    Text,
    /// Markdown with all terms, for release notes
    Markdown,
    /// A page with all terms
    Html,
    /// Commands of the Knowledge Graph Change Language
    Kgcl,
}

/// Arguments of `validate`.
#[derive(Debug, Args)]
pub(super) struct ValidateArguments {
    /// Files, or ontologies of the library as ID or ID@VERSION
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<String>,
    #[command(flatten)]
    pub library: LibraryFlag,
}

/// Arguments of `prune`.
#[derive(Debug, Args)]
pub(super) struct PruneArguments {
    /// Ontologies; otherwise all
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// How many versions of each to keep; the latest always stays
    #[arg(long, value_name = "N", value_parser = quantity::number(1..=u32::MAX))]
    pub keep: u32,
    /// Only show what would be removed
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub library: LibraryFlag,
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(super) struct DoctorArguments {
    #[command(flatten)]
    pub library: LibraryFlag,
}

/// Arguments of `rl`.
#[derive(Debug, Args)]
pub(super) struct RlArguments {
    #[command(subcommand)]
    pub command: RlCommand,
}

/// What to do with rates.
#[derive(Debug, Subcommand)]
pub(super) enum RlCommand {
    /// Show each service: its windows, how full they are, when the next request may go
    Doctor {
        /// Services or SERVICE:HOST to show; otherwise all
        #[arg(value_name = "KEY")]
        keys: Vec<String>,
        /// JSON lines with ratelimit.acquire events of programs that use the library
        #[arg(long, value_name = "FILE")]
        events: Option<PathBuf>,
    },
}

/// Arguments of `init`.
#[derive(Debug, Args)]
pub(super) struct InitArguments {
    /// The file to write
    #[arg(default_value = "sources.yaml")]
    pub file: PathBuf,
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub(super) struct PullDemoArguments {
    /// Directory for the library and its report [default: a new temporary directory]
    #[arg(long, short, value_name = "DIR", value_parser = quantity::local_path())]
    pub out: Option<PathBuf>,
    /// Number of ontologies
    #[arg(
        long,
        value_name = "N",
        default_value_t = 40,
        value_parser = quantity::number(5..=2000)
    )]
    pub ontologies: u32,
}
