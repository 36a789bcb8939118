//! The command line as written.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use docstokg_hub::config::flags::Flags;
use docstokg_hub::config::load::{self, Sources};
use docstokg_hub::config::settings::Settings;
use docstokg_hub::config::{BackendKind, Config};
use docstokg_hub::policy::role::Role;
use docstokg_hub::transport::ConnectTo;
use docstokg_hub::transport::wire::WireOptions;

use crate::exit::Failure;
use crate::output;

/// Downloads scholarly works politely: every request passes one cache, breaker, limiter and retry.
#[derive(Debug, Parser)]
#[command(
    name = "docstokg",
    version,
    after_help = "Exit codes: 0 done, 1 something failed, 2 usage or config, 3 refused for now by breaker or limiter."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Fetch one URL through the hub
    Fetch(Fetch),
    /// Download works: DOIs, arXiv ids, PMCIDs, URLs, files of them
    Download(Box<Download>),
    /// Tell whom a work would be looked up with, in which order, and why
    Explain(Explain),
    /// Run the main job against a built-in simulated web; no internet is used
    Demo(Demo),
    /// Show the limits in force, and what waits for them
    Limits(Limits),
    /// Show, open and close circuit breakers, for all processes
    Breaker(Breaker),
    /// Tell what a run came to: requests, waits, opens, failures
    Summary(SummaryArguments),
    /// Show, check and describe the configuration
    Config(ConfigArguments),
}

/// Flags that every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Configuration file [env: `DOCSTOKG_CONFIG`]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Directory of the state that processes share [env: `DOCSTOKG_STATE_DIR`]
    #[arg(long, global = true, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Limits of one host and role, e.g. `api.crossref.org:metadata=rates:25/SECOND+10000/HOUR,max_delay_ms:150`
    #[arg(long, global = true, value_name = "HOST:ROLE=…")]
    pub rate: Vec<String>,
    /// Where the state of limits and breakers lives: sqlite, multiprocess, redis or memory
    #[arg(long, global = true, value_name = "KIND")]
    pub rate_backend: Option<String>,
    /// Where that store is: a file, or `redis://HOST:PORT/DB`
    #[arg(long, global = true, value_name = "DSN")]
    pub rate_dsn: Option<String>,
    /// The most requests in flight at once, over all hosts
    #[arg(long, global = true, value_name = "N")]
    pub max_inflight: Option<String>,
    /// Adaptive rate, e.g. `enabled=true,high_429_ratio=0.08,decrease=25,increase=5`
    #[arg(long, global = true, value_name = "KEY=VALUE,…")]
    pub aimd: Option<String>,
    /// Breaker of one host, e.g. `api.crossref.org=fail_max:5,reset:60,retry_after_cap:900`
    #[arg(long, global = true, value_name = "HOST=…")]
    pub breaker: Vec<String>,
    /// Breaker of one resolver, e.g. `landing_page=fail_max:4,reset:45`
    #[arg(long, global = true, value_name = "NAME=…")]
    pub breaker_resolver: Vec<String>,
    /// The longest that a request may take in all, in seconds; 0 for no bound
    #[arg(long, global = true, value_name = "SECONDS")]
    pub deadline: Option<String>,
    /// Connect to ADDR:PORT for what is meant for HOST:PORT
    #[arg(long, global = true, value_name = "HOST:PORT=ADDR:PORT")]
    pub connect_to: Vec<String>,
    /// Trust the certificates in FILE (PEM) beside the machine's
    #[arg(long, global = true, value_name = "FILE")]
    pub cacert: Vec<PathBuf>,
    /// Serve the metrics of the run for Prometheus, e.g. `127.0.0.1:9464`
    #[arg(long, global = true, value_name = "ADDR")]
    pub metrics: Option<String>,
    /// Say nothing but errors on stderr
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Say more on stderr, such as the full table of limits
    #[arg(long, short, global = true)]
    pub verbose: bool,
    /// Write JSON to stdout
    #[arg(long, global = true)]
    pub json: bool,
}

/// Arguments of `fetch`.
#[derive(Debug, Args)]
pub(crate) struct Fetch {
    /// The URL
    pub url: String,
    /// What the request is for: metadata, landing or artifact
    #[arg(long, default_value = "metadata")]
    pub role: Role,
    /// The HTTP method
    #[arg(long, default_value = "GET", value_name = "METHOD")]
    pub method: String,
    /// The resolver on whose behalf it is; its breaker is asked too
    #[arg(long, value_name = "NAME")]
    pub resolver: Option<String>,
    /// Add a header; keys in it stay with the host they are meant for
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// Write the body to FILE, which appears when it is complete
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Tell every decision and when it was made, on stderr
    #[arg(long)]
    pub explain: bool,
}

/// Arguments of `download`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags are flags")]
pub(crate) struct Download {
    /// URLs, DOIs, arXiv ids, PMCIDs, PMIDs, OpenAlex ids; files of them (lines, CSV, JSONL, BibTeX, RIS, CSL-JSON); - for stdin
    #[arg(value_name = "INPUT")]
    pub inputs: Vec<String>,
    /// Where files and the manifest go
    #[arg(long, short, value_name = "DIR")]
    pub out: PathBuf,
    /// The most works in hand at once, those that wait for a rate included
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    pub workers: u32,
    /// What requests for files are counted as: artifact, landing or metadata
    #[arg(long, default_value = "artifact")]
    pub role: Role,
    /// The kinds of files wanted, joined by commas: pdf, xml, html
    #[arg(long, value_name = "KINDS", default_value = "pdf")]
    pub kinds: String,
    /// Format of input files: auto, lines, csv, jsonl, bibtex, ris or csl-json
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    pub format: String,
    /// Go on with an earlier run in the same directory
    #[arg(long)]
    pub resume: bool,
    /// Try works again that failed
    #[arg(long)]
    pub retry_failed: bool,
    /// Check the files that are there first, and fetch those anew that are not what they were
    #[arg(long)]
    pub verify: bool,
    /// Make no request; say what would be asked first
    #[arg(long)]
    pub dry_run: bool,
    /// Look up where files are and list the places; fetch none
    #[arg(long)]
    pub list_only: bool,
    /// Works on a topic, through `OpenAlex`
    #[arg(long, value_name = "TEXT", help_heading = "Query")]
    pub topic: Option<String>,
    /// Works that fit an `OpenAlex` filter, e.g. `type:article,open_access.is_oa:true`
    #[arg(long, value_name = "FILTER", help_heading = "Query")]
    pub filter: Option<String>,
    /// Published in this year or later
    #[arg(long, value_name = "YEAR", help_heading = "Query")]
    pub year_start: Option<i32>,
    /// Published in this year or earlier
    #[arg(long, value_name = "YEAR", help_heading = "Query")]
    pub year_end: Option<i32>,
    /// The most works that a query gives
    #[arg(long, value_name = "N", help_heading = "Query")]
    pub max: Option<u64>,
    #[command(flatten)]
    pub choice: ResolverFlags,
    /// Name files by their checksum: the same bytes are one file
    #[arg(long, help_heading = "Files")]
    pub content_addressed: bool,
    /// Start no further file once so many bytes of files are there; what is in flight still comes
    #[arg(long, value_name = "BYTES", help_heading = "Files")]
    pub max_bytes: Option<u64>,
    /// Stop when less room than this is left on the disk, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, help_heading = "Files")]
    pub min_free: u64,
    /// The least that a PDF has, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1024, help_heading = "Files")]
    pub min_pdf_bytes: u64,
    /// The most requests for one work
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Patience")]
    pub max_attempts: u32,
    /// The most seconds for one work
    #[arg(long, value_name = "SECONDS", help_heading = "Patience")]
    pub item_deadline: Option<u64>,
    /// Longest wait for paused hosts at the end of a run, in seconds; 0 does not wait
    #[arg(long, alias = "max-park", value_name = "SECONDS", default_value_t = 3600, help_heading = "Patience")]
    pub max_wait: u64,
    /// Ignore robots.txt (recorded in the summary)
    #[arg(long, help_heading = "Patience")]
    pub ignore_robots: bool,
}

/// Flags that say whom to ask.
#[derive(Debug, Args)]
pub(crate) struct ResolverFlags {
    /// Whom to ask first, joined by commas
    #[arg(long, value_name = "NAMES", help_heading = "Resolvers")]
    pub resolver_order: Option<String>,
    /// How far to go: fast or broad
    #[arg(long, value_name = "PRESET", help_heading = "Resolvers")]
    pub resolver_preset: Option<String>,
    /// Ask this resolver, too
    #[arg(long, alias = "enable-resolver", value_name = "NAME", help_heading = "Resolvers")]
    pub enable: Vec<String>,
    /// Do not ask this resolver
    #[arg(long, alias = "disable-resolver", value_name = "NAME", help_heading = "Resolvers")]
    pub disable: Vec<String>,
    /// Your address, for services that want to be able to reach you [config: identity.mailto]
    #[arg(long, value_name = "EMAIL", help_heading = "Resolvers")]
    pub mailto: Option<String>,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// A DOI, arXiv id, PMCID, PMID, `OpenAlex` id or URL
    pub id: String,
    #[command(flatten)]
    pub choice: ResolverFlags,
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Where files, manifest and report go [default: a new directory among the temporary ones]
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// How many works there are
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(10..=5000))]
    pub works: u32,
    /// What the simulated web is made from: the same seed gives the same one
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// By how much the limits of the real services are multiplied
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub scale: u32,
}

/// Arguments of `limits`.
#[derive(Debug, Args)]
pub(crate) struct Limits {
    #[command(subcommand)]
    pub command: LimitsCommand,
}

/// What to do with limits.
#[derive(Debug, Subcommand)]
pub(crate) enum LimitsCommand {
    /// Show the limits in force, and where each value came from
    Show {
        /// Only this host
        host: Option<String>,
    },
    /// Tell how full each budget is, when the next request may go, and why not now
    Doctor {
        /// Only this host; otherwise every host that has been asked
        host: Option<String>,
    },
}

/// Arguments of `breaker`.
#[derive(Debug, Args)]
pub(crate) struct Breaker {
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
    /// Leave a host alone for a time
    Open {
        /// The host, or with --resolver the resolver
        host: String,
        /// For how long
        #[arg(long, value_name = "N")]
        seconds: f64,
        /// Why, for whoever looks
        #[arg(long, value_name = "TEXT", default_value = "operator")]
        reason: String,
        /// It is a resolver
        #[arg(long)]
        resolver: bool,
    },
    /// Clear the block and the failure counts of a host
    Close {
        /// The host, or with --resolver the resolver
        host: String,
        /// It is a resolver
        #[arg(long)]
        resolver: bool,
    },
}

/// Arguments of `summary`.
#[derive(Debug, Args)]
pub(crate) struct SummaryArguments {
    /// The run: its id or the beginning of it, the directory of a download, latest or all
    pub run: Option<String>,
    /// Compare with this earlier run
    #[arg(long, value_name = "RUN")]
    pub compare: Option<String>,
    /// Check the targets, of FILE or of the configuration; exit 1 if one is broken
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "the flag may stand alone")]
    pub slo: Option<Option<PathBuf>>,
    /// Write a page to FILE: timeline, histograms, failures
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// List the ids of all runs, latest first
    #[arg(long)]
    pub list: bool,
    /// Read this database instead of the one in the state directory
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
    /// Show the configuration in force, all layers merged
    Show,
    /// Check the configuration and list every problem
    Check {
        /// The file to check, instead of --config
        file: Option<PathBuf>,
    },
    /// Write the JSON schema of the configuration file
    Schema {
        /// Write a table of all keys instead
        #[arg(long)]
        markdown: bool,
    },
}

impl Global {
    /// Reads all layers of the configuration.
    pub(crate) fn load(&self) -> Result<(Config, Settings), Failure> {
        self.load_with(self.config.clone())
    }

    /// Reads all layers of the configuration, with this file.
    pub(crate) fn load_with(&self, file: Option<PathBuf>) -> Result<(Config, Settings), Failure> {
        let flags = Flags {
            rate: self.rate.clone(),
            rate_backend: self.rate_backend.clone(),
            rate_dsn: self.rate_dsn.clone(),
            max_inflight: self.max_inflight.clone(),
            aimd: self.aimd.clone(),
            breaker: self.breaker.clone(),
            breaker_resolver: self.breaker_resolver.clone(),
            deadline: self.deadline.clone(),
        };
        let environment = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let loaded = load::load(&Sources { file, environment: environment.collect(), flags, backend: Some(BackendKind::Sqlite) })?;
        if !self.quiet {
            for warning in &loaded.1.warnings {
                output::tell(&format!("docstokg: warning: {warning}"));
            }
        }
        Ok(loaded)
    }

    /// Reads how connections are made.
    pub(crate) fn wire(&self) -> Result<WireOptions, Failure> {
        let connect_to =
            self.connect_to.iter().map(|text| text.parse::<ConnectTo>().map_err(|error| Failure::Usage(format!("--connect-to: {error}"))));
        let certificates = self
            .cacert
            .iter()
            .map(|path| std::fs::read(path).map_err(|error| Failure::Usage(format!("--cacert: {} cannot be read: {error}", path.display()))));
        Ok(WireOptions {
            connect_to: connect_to.collect::<Result<_, _>>()?,
            certificates: certificates.collect::<Result<_, _>>()?,
            ..WireOptions::default()
        })
    }
}
