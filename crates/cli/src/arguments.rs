//! The command line as written.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use docstokg_hub::config::flags::Flags;
use docstokg_hub::config::load::{self, Sources};
use docstokg_hub::config::settings::Settings;
use docstokg_hub::config::{BackendKind, Config};
use docstokg_hub::policy::role::Role;
use docstokg_hub::transport::ConnectTo;
use docstokg_hub::transport::wire::WireOptions;

use crate::exit::Failure;

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
    /// The run, by its id or the beginning of it; `latest` or `all`
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
        Ok(load::load(&Sources { file, environment: environment.collect(), flags, backend: Some(BackendKind::Sqlite) })?)
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
            idle_connection: Duration::from_secs(90),
            ..WireOptions::default()
        })
    }
}
