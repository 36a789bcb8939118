//! The command line as written.

#![expect(
    clippy::doc_markdown,
    reason = "these comments are the help text, which has no markup"
)]

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
    /// Show which sources would be tried for a work, and why
    Explain(Explain),
    /// Run the main job against a built-in simulated web; no internet is used
    Demo(Demo),
    /// Show the limits in force and what waits for them
    Limits(Limits),
    /// Show, open and close circuit breakers, for all processes
    Breaker(Breaker),
    /// Summarise a run: requests, waits, paused hosts, failures
    Summary(SummaryArguments),
    /// Show, check and describe the configuration
    Config(ConfigArguments),
}

/// Flags that every command takes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Configuration file [env: DOCSTOKG_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// State directory, shared by all processes [env: DOCSTOKG_STATE_DIR]
    #[arg(long, global = true, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Limits of one host and role, e.g.
    /// api.crossref.org:metadata=rates:25/SECOND+10000/HOUR,max_delay_ms:150
    #[arg(long, global = true, value_name = "HOST:ROLE=…")]
    pub rate: Vec<String>,
    /// Store for limits and breakers: sqlite, multiprocess, redis or memory
    #[arg(long, global = true, value_name = "KIND")]
    pub rate_backend: Option<String>,
    /// Location of that store: a file, or redis://HOST:PORT/DB
    #[arg(long, global = true, value_name = "DSN")]
    pub rate_dsn: Option<String>,
    /// Maximum requests in flight at once, over all hosts
    #[arg(long, global = true, value_name = "N")]
    pub max_inflight: Option<String>,
    /// Adaptive rate, e.g. enabled=true,high_429_ratio=0.08,decrease=25,increase=5
    #[arg(long, global = true, value_name = "KEY=VALUE,…")]
    pub aimd: Option<String>,
    /// Breaker of one host, e.g. api.crossref.org=fail_max:5,reset:60,retry_after_cap:900
    #[arg(long, global = true, value_name = "HOST=…")]
    pub breaker: Vec<String>,
    /// Breaker of one resolver, e.g. landing_page=fail_max:4,reset:45
    #[arg(long, global = true, value_name = "NAME=…")]
    pub breaker_resolver: Vec<String>,
    /// Deadline of each request in seconds; 0 for none
    #[arg(long, global = true, value_name = "SECONDS")]
    pub deadline: Option<String>,
    /// Connect to ADDR:PORT instead of HOST:PORT
    #[arg(long, global = true, value_name = "HOST:PORT=ADDR:PORT")]
    pub connect_to: Vec<String>,
    /// Also trust the certificates in FILE (PEM)
    #[arg(long, global = true, value_name = "FILE")]
    pub cacert: Vec<PathBuf>,
    /// Serve Prometheus metrics at this address, e.g. 127.0.0.1:9464
    #[arg(long, global = true, value_name = "ADDR")]
    pub metrics: Option<String>,
    /// Print only errors to stderr
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Print more to stderr, such as the full table of limits
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
    /// Resolver that the request belongs to; its breaker applies as well
    #[arg(long, value_name = "NAME")]
    pub resolver: Option<String>,
    /// Add a header; credentials in it are not sent to other hosts
    #[arg(long, short = 'H', value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// Write the body to FILE, once it is complete
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print every decision and its time to stderr
    #[arg(long)]
    pub explain: bool,
}

/// Arguments of `download`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags are flags")]
pub(crate) struct Download {
    /// URLs, DOIs, arXiv ids, PMCIDs, PMIDs, OpenAlex ids; files of them (lines, CSV, JSONL,
    /// BibTeX, RIS, CSL-JSON); - for stdin
    #[arg(value_name = "INPUT")]
    pub inputs: Vec<String>,
    /// Directory for files and the manifest
    #[arg(long, short, value_name = "DIR")]
    pub out: PathBuf,
    /// Maximum works processed at once, including those waiting for a rate
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    pub workers: u32,
    /// Role of requests for files: artifact, landing or metadata
    #[arg(long, default_value = "artifact")]
    pub role: Role,
    /// Kinds of files to download, comma-separated: pdf, xml, html
    #[arg(long, value_name = "KINDS", default_value = "pdf")]
    pub kinds: String,
    /// Format of input files: auto, lines, csv, jsonl, bibtex, ris or csl-json
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    pub format: String,
    /// Continue an earlier run in the same directory
    #[arg(long)]
    pub resume: bool,
    /// Retry works that failed
    #[arg(long)]
    pub retry_failed: bool,
    /// Check existing files first; download changed or missing ones again
    #[arg(long)]
    pub verify: bool,
    /// Send no request; print what would be requested first
    #[arg(long)]
    pub dry_run: bool,
    /// Look up and list the locations of files; download none
    #[arg(long)]
    pub list_only: bool,
    /// Works on a topic, from OpenAlex
    #[arg(long, value_name = "TEXT", help_heading = "Query")]
    pub topic: Option<String>,
    /// Works that match an OpenAlex filter, e.g. type:article,open_access.is_oa:true
    #[arg(long, value_name = "FILTER", help_heading = "Query")]
    pub filter: Option<String>,
    /// Published in this year or later
    #[arg(long, value_name = "YEAR", help_heading = "Query")]
    pub year_start: Option<i32>,
    /// Published in this year or earlier
    #[arg(long, value_name = "YEAR", help_heading = "Query")]
    pub year_end: Option<i32>,
    /// Maximum works of a query
    #[arg(long, value_name = "N", help_heading = "Query")]
    pub max: Option<u64>,
    #[command(flatten)]
    pub choice: ResolverFlags,
    /// Name files by their checksum: the same bytes are one file
    #[arg(long, help_heading = "Files")]
    pub content_addressed: bool,
    /// Start no more downloads after this many bytes; current downloads finish
    #[arg(long, value_name = "BYTES", help_heading = "Files")]
    pub max_bytes: Option<u64>,
    /// Stop when less disk space than this is free, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 64, help_heading = "Files")]
    pub min_free: u64,
    /// Minimum size of a PDF, in bytes
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 1024,
        help_heading = "Files"
    )]
    pub min_pdf_bytes: u64,
    /// Maximum requests for one work
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Limits of a run")]
    pub max_attempts: u32,
    /// Maximum seconds for one work
    #[arg(long, value_name = "SECONDS", help_heading = "Limits of a run")]
    pub item_deadline: Option<u64>,
    /// Longest wait for paused hosts at the end of a run, in seconds; 0 does not wait
    #[arg(
        long,
        alias = "max-park",
        value_name = "SECONDS",
        default_value_t = 3600,
        help_heading = "Limits of a run"
    )]
    pub max_wait: u64,
    /// Ignore robots.txt (recorded in the summary)
    #[arg(long, help_heading = "Limits of a run")]
    pub ignore_robots: bool,
    /// Refuse loopback and private addresses for URLs in inputs
    #[arg(long, help_heading = "Inputs")]
    pub untrusted_input: bool,
}

/// Flags that say whom to ask.
#[derive(Debug, Args)]
pub(crate) struct ResolverFlags {
    /// Sources to try first, comma-separated
    #[arg(long, value_name = "NAMES", help_heading = "Sources")]
    pub resolver_order: Option<String>,
    /// Sources: fast (APIs only) or broad (also web pages and archives)
    #[arg(long, value_name = "PRESET", help_heading = "Sources")]
    pub resolver_preset: Option<String>,
    /// Also use this source
    #[arg(
        long,
        alias = "enable-resolver",
        value_name = "NAME",
        help_heading = "Sources"
    )]
    pub enable: Vec<String>,
    /// Do not use this source
    #[arg(
        long,
        alias = "disable-resolver",
        value_name = "NAME",
        help_heading = "Sources"
    )]
    pub disable: Vec<String>,
    /// Your e-mail address, sent to services that ask for one [config: identity.mailto]
    #[arg(long, value_name = "EMAIL", help_heading = "Sources")]
    pub mailto: Option<String>,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// A DOI, arXiv id, PMCID, PMID, OpenAlex id or URL
    pub id: String,
    #[command(flatten)]
    pub choice: ResolverFlags,
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Directory for files, manifest and report [default: a new temporary directory]
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Number of works
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(10..=5000))]
    pub works: u32,
    /// Seed of the simulated web
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Factor applied to the limits of the real services
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
    /// Pause requests to a host
    Open {
        /// The host, or with --resolver the resolver
        host: String,
        /// Length of the pause
        #[arg(long, value_name = "N")]
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

/// Arguments of `summary`.
#[derive(Debug, Args)]
pub(crate) struct SummaryArguments {
    /// Run id or its beginning, download directory, latest or all
    pub run: Option<String>,
    /// Compare with this earlier run
    #[arg(long, value_name = "RUN")]
    pub compare: Option<String>,
    /// Check the targets in FILE or in the configuration; exit 1 if one fails
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "the flag may stand alone")]
    pub slo: Option<Option<PathBuf>>,
    /// Write an HTML report to FILE
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// List run ids, latest first
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
        /// Print a table of all keys instead
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
        let environment = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        let loaded = load::load(&Sources {
            file,
            environment: environment.collect(),
            flags,
            backend: Some(BackendKind::Sqlite),
        })?;
        if !self.quiet {
            for warning in &loaded.1.warnings {
                output::tell(&format!("docstokg: warning: {warning}"));
            }
        }
        Ok(loaded)
    }

    /// Reads how connections are made.
    pub(crate) fn wire(&self) -> Result<WireOptions, Failure> {
        let connect_to = self.connect_to.iter().map(|text| {
            text.parse::<ConnectTo>()
                .map_err(|error| Failure::Usage(format!("--connect-to: {error}")))
        });
        let certificates = self.cacert.iter().map(|path| {
            std::fs::read(path).map_err(|error| {
                Failure::Usage(format!(
                    "--cacert: {} cannot be read: {error}",
                    path.display()
                ))
            })
        });
        Ok(WireOptions {
            connect_to: connect_to.collect::<Result<_, _>>()?,
            certificates: certificates.collect::<Result<_, _>>()?,
            ..WireOptions::default()
        })
    }
}
