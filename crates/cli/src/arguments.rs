//! The command line. Each group of commands has its arguments in a file under `arguments`.

#![expect(
    clippy::doc_markdown,
    reason = "these comments are the help text, which has no markup"
)]

mod download;
mod export;
mod inspect;
mod serve;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use docstokg_config::read_limited::read_bytes;
use docstokg_hub::policy::role::Role;
use docstokg_hub::transport::ConnectTo;
use docstokg_hub::transport::wire::WireOptions;

use crate::exit::CommandFailure;
use crate::quantity;
pub(crate) use download::{DownloadArguments, ResolverFlags};
pub(crate) use export::ExportArguments;
pub(crate) use inspect::{
    BreakerArguments, BreakerCommand, CacheArguments, CacheCommand, ConfigArguments, ConfigCommand,
    LimitsArguments, LimitsCommand, StatusArguments, SummaryArguments, WhyArguments,
};
pub(crate) use serve::{ServeArguments, ServeCacheMode};

/// Downloads scholarly works politely: every request passes one cache, breaker, limiter and retry.
#[derive(Debug, Parser)]
#[command(
    name = "docstokg",
    version,
    after_help = "Exit codes: 0 done, 1 something failed, 2 usage or config, \
                  3 refused for now by breaker or limiter, 130 interrupted."
)]
pub(crate) struct DocstokgArguments {
    #[command(flatten)]
    pub global: GlobalArguments,
    #[command(subcommand)]
    pub command: DocstokgCommand,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum DocstokgCommand {
    /// Fetch one URL through the hub
    Fetch(FetchArguments),
    /// Download works: DOIs, arXiv ids, PMCIDs, URLs, files of them
    Download(Box<DownloadArguments>),
    /// Show which sources would be tried for a work, and why
    Explain(ExplainArguments),
    /// Run the main job against a built-in simulated web; no internet is used
    Demo(DemoArguments),
    /// Serve the hub to other programs, as an HTTP proxy or in front of one origin
    Serve(ServeArguments),
    /// Show the limits in force and what waits for them
    Limits(LimitsArguments),
    /// Show, open and close circuit breakers, for all processes
    Breaker(BreakerArguments),
    /// Show, check and empty the cache of responses
    Cache(CacheArguments),
    /// Write the works of a directory for reference managers, tables and knowledge graphs
    Export(ExportArguments),
    /// Show how a run stands: works, pace, remaining time, and what waits for whom
    Status(StatusArguments),
    /// Show what happened to one work, why it has no file, and what could be done
    Why(WhyArguments),
    /// Summarise a run: requests, waits, paused hosts, failures
    Summary(SummaryArguments),
    /// Show, check and describe the configuration
    Config(ConfigArguments),
}

/// Flags that every command takes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArguments {
    /// Configuration file [env: DOCSTOKG_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// State directory, shared by all processes [env: DOCSTOKG_STATE_DIR]
    #[arg(long, global = true, value_name = "DIR", value_parser = quantity::local_path())]
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
    /// Deadline of each request, in seconds or as 2m; 0 for none
    #[arg(long, global = true, value_name = "DURATION", value_parser = quantity::seconds_text)]
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
    #[command(flatten)]
    pub cache: CacheFlags,
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

/// The use of stored responses.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct CacheFlags {
    /// Use the cache alone; nothing is requested
    #[arg(long, global = true, conflicts_with_all = ["no_cache", "refresh"])]
    pub offline: bool,
    /// Neither use nor fill the cache
    #[arg(long, global = true, conflicts_with = "refresh")]
    pub no_cache: bool,
    /// Request everything from the origin and store its responses
    #[arg(long, global = true)]
    pub refresh: bool,
}

/// Arguments of `fetch`.
#[derive(Debug, Args)]
pub(crate) struct FetchArguments {
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
    #[arg(long, short, value_name = "FILE", value_parser = quantity::local_path())]
    pub output: Option<PathBuf>,
    /// Obey the robots.txt of the host and of every host that it redirects to
    #[arg(long)]
    pub obey_robots: bool,
    /// Print every decision and its time to stderr
    #[arg(long)]
    pub explain: bool,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    /// A DOI, arXiv id, PMCID, PMID, OpenAlex id or URL
    pub id: String,
    #[command(flatten)]
    pub choice: ResolverFlags,
}

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// Directory for files, manifest and report [default: a new temporary directory]
    #[arg(long, short, value_name = "DIR", value_parser = quantity::local_path())]
    pub out: Option<PathBuf>,
    /// Number of works
    #[arg(
        long,
        value_name = "N",
        default_value_t = 300,
        value_parser = quantity::number(10..=5000)
    )]
    pub works: u32,
    /// Seed of the simulated web
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Factor applied to the limits of the real services
    #[arg(
        long,
        value_name = "N",
        default_value_t = 5,
        value_parser = quantity::number(1..=1000)
    )]
    pub scale: u32,
}

impl GlobalArguments {
    /// Returns the [`WireOptions`] for connections, from the flags.
    pub(crate) fn wire(&self) -> Result<WireOptions, CommandFailure> {
        let connect_to = self.connect_to.iter().map(|text| {
            text.parse::<ConnectTo>()
                .map_err(|error| CommandFailure::Usage(format!("--connect-to: {error}")))
        });
        let certificates = self.cacert.iter().map(|path| {
            let hint = "which no file of certificates is";
            read_bytes(path, MAX_CERTIFICATES_BYTES, hint).map_err(|error| {
                CommandFailure::Usage(format!(
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

/// The largest file of certificates that is read; those of operating systems have 250 KiB.
const MAX_CERTIFICATES_BYTES: u64 = 16 << 20;
