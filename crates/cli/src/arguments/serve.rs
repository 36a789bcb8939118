//! Arguments of `serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use http::HeaderName;
use url::Url;

use crate::quantity;

/// Arguments of `serve`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
A program uses it by its ordinary proxy setting for http, and by the explicit form for https:
  http_proxy=http://127.0.0.1:8100 curl http://export.arxiv.org/api/query?id_list=1706.03762
  curl http://127.0.0.1:8100/https://api.crossref.org/works/10.1038/nature14539
SIGHUP reads the configuration again; SIGTERM and Ctrl-C finish current requests, twice ends at once.")]
pub(crate) struct ServeArguments {
    /// Address and port to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8100")]
    pub listen: String,
    /// Serve this origin alone: every path is a path there
    #[arg(long, value_name = "URL")]
    pub origin: Option<Url>,
    /// Whose responses the cache stores: those of one user, or those of all clients
    #[arg(long, value_enum, default_value_t = ServeCacheMode::Private)]
    pub cache_mode: ServeCacheMode,
    /// Directory of the cache [default: that of the configuration]
    #[arg(long, value_name = "DIR", value_parser = quantity::local_path())]
    pub store: Option<PathBuf>,
    /// Also reuse responses without a lifetime, for a tenth of the time since they were last
    /// modified, at most a day
    #[arg(long)]
    pub heuristic: bool,
    /// Request field on which no response depends: the private cache reuses responses whatever its
    /// value (repeatable)
    #[arg(long, value_name = "NAME")]
    pub ignore_field: Vec<HeaderName>,
    /// Longest wait of a request before it is sent or refused with Retry-After
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "4s",
        value_parser = quantity::duration
    )]
    pub max_wait: Duration,
    /// Fetch by https what clients request from the proxy by http
    #[arg(long, conflicts_with = "origin")]
    pub upgrade_https: bool,
    /// File with the token that clients have to send [env: DOCSTOKG_GATEWAY_TOKEN]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Name and port by which clients reach the gateway, beside its address
    #[arg(long, value_name = "NAME:PORT")]
    pub name: Vec<String>,
    /// Largest request body, in bytes or as 64M
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = quantity::size)]
    pub max_request_body: u64,
    /// Maximum connections of clients at once
    #[arg(
        long,
        value_name = "N",
        default_value_t = 512,
        value_parser = quantity::number(1..=65_536)
    )]
    pub max_connections: u32,
}

/// The clients for whom the cache stores responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServeCacheMode {
    /// One user's
    Private,
    /// All clients'
    Shared,
}
