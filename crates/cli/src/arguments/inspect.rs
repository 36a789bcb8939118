//! The arguments of the commands that show and change state: `limits`, `breaker`, `status`, `why`,
//! `summary` and `config`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::quantity;

/// Arguments of `limits`.
#[derive(Debug, Args)]
pub(crate) struct LimitsArguments {
    #[command(subcommand)]
    pub command: LimitsCommand,
}

/// What to do with limits.
#[derive(Debug, Subcommand)]
pub(crate) enum LimitsCommand {
    /// Show the limits in force and the source of each value
    Show {
        /// Only this host
        host: Option<String>,
    },
    /// Show how much of each budget is used, when the next request may go, and why
    Doctor {
        /// Only this host; otherwise every host with recorded requests
        host: Option<String>,
    },
    /// Show what was learned of hosts' limits, as lines of configuration, and what that would have
    /// saved
    Advise {
        /// Run id or its beginning, download directory, latest, all, or a host
        about: Option<String>,
    },
    /// Forget what was learned of a host's limits, for all processes
    Forget {
        /// The host
        host: String,
    },
}

/// Arguments of `breaker`.
#[derive(Debug, Args)]
pub(crate) struct BreakerArguments {
    #[command(subcommand)]
    pub command: BreakerCommand,
}

/// What to do with breakers.
#[derive(Debug, Subcommand)]
pub(crate) enum BreakerCommand {
    /// Show the breakers of configured and seen hosts and resolvers
    Show {
        /// Only those that are not closed
        #[arg(long)]
        open_only: bool,
        /// Only this host
        #[arg(long, value_name = "HOST")]
        host: Option<String>,
    },
    /// Pause requests to a host
    Open {
        /// The host, or with --resolver the resolver
        host: String,
        /// Length of the pause, in seconds or as 10m
        #[arg(long, value_name = "DURATION", value_parser = quantity::seconds)]
        seconds: f64,
        /// Reason, shown by breaker show
        #[arg(long, value_name = "TEXT", default_value = "operator")]
        reason: String,
        /// The name is that of a resolver
        #[arg(long)]
        resolver: bool,
    },
    /// Resume requests to a host and reset its failure counts
    Close {
        /// The host, or with --resolver the resolver
        host: String,
        /// The name is that of a resolver
        #[arg(long)]
        resolver: bool,
    },
}

/// Arguments of `cache`.
#[derive(Debug, Args)]
pub(crate) struct CacheArguments {
    #[command(subcommand)]
    pub command: CacheCommand,
}

/// What to do with the cache.
#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// List the stored responses
    Show {
        /// Only those of this host
        host: Option<String>,
    },
    /// Show how many responses are stored, and their size
    Stats,
    /// Remove the responses of a host, or all
    Purge {
        /// Only those of this host
        host: Option<String>,
    },
    /// Check every stored body, and remove damaged responses
    Verify,
}

/// Arguments of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    /// Directory of a download; otherwise all runs of the state directory, newest first
    pub directory: Option<PathBuf>,
    /// Show it again and again until the run ends
    #[arg(long)]
    pub watch: bool,
}

/// Arguments of `why`.
#[derive(Debug, Args)]
pub(crate) struct WhyArguments {
    /// The work: a DOI, arXiv id, PMCID, PMID, OpenAlex id or URL, as it was given or recorded
    pub id: String,
    /// Directory of the download; otherwise the latest one of the state directory that has the work
    pub directory: Option<PathBuf>,
}

/// Arguments of `summary`.
#[derive(Debug, Args)]
pub(crate) struct SummaryArguments {
    /// Run id or its beginning, download directory, latest or all
    pub run: Option<String>,
    /// Compare with this earlier run, or with that of a directory
    #[arg(long, value_name = "RUN")]
    pub compare: Option<String>,
    /// Check the targets in FILE or in the configuration; exit 1 if one fails
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "the flag may stand alone")]
    pub slo: Option<Option<PathBuf>>,
    /// Write an HTML report to FILE
    #[arg(long, value_name = "FILE", value_parser = quantity::local_path())]
    pub html: Option<PathBuf>,
    /// List runs, latest first: when, how they ended, and where
    #[arg(long)]
    pub list: bool,
    /// Database to read instead of the one in the state directory
    #[arg(long, value_name = "FILE")]
    pub telemetry: Option<PathBuf>,
}

/// Arguments of `config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Show the configuration in force, with all layers merged
    Show,
    /// Check the configuration and list every problem
    Check {
        /// The file to check, instead of --config
        file: Option<PathBuf>,
    },
    /// Print the JSON schema of the configuration file
    Schema {
        /// Print a list of all keys instead
        #[arg(long)]
        markdown: bool,
    },
    /// Convert the configuration files of DocsToKG (ratelimits.yaml, breakers.yaml, cache.yaml,
    /// sources.yaml), and list what has no counterpart
    Import {
        /// The files
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Write docstokg.yaml, and the list of ontologies, into DIR instead of to stdout
        #[arg(long, value_name = "DIR", value_parser = quantity::local_path())]
        out: Option<PathBuf>,
    },
}
