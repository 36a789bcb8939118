//! The arguments of `download`, and the choice of sources that `explain` shares.

#![expect(
    clippy::doc_markdown,
    reason = "these comments are the help text, which has no markup"
)]

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use docstokg_hub::policy::role::Role;

use crate::quantity;

/// Arguments of `download`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags are flags")]
pub(crate) struct DownloadArguments {
    /// URLs, DOIs, arXiv ids, PMCIDs, PMIDs, OpenAlex ids; files or pipes of them; - for stdin
    #[arg(value_name = "INPUT")]
    pub inputs: Vec<String>,
    /// Directory for files and the manifest
    #[arg(long, short, value_name = "DIR", value_parser = quantity::local_path())]
    pub out: PathBuf,
    /// Maximum works processed at once; those that wait for a host do not count
    #[arg(
        long,
        value_name = "N",
        default_value_t = 2000,
        value_parser = quantity::number(1..=u32::MAX)
    )]
    pub workers: u32,
    /// Role of requests for files: artifact, landing or metadata [default: artifact]
    #[arg(long)]
    pub role: Option<Role>,
    /// Kinds of files to download, comma-separated: pdf, xml, html [default: pdf]
    #[arg(long, value_name = "KINDS")]
    pub kinds: Option<String>,
    /// Format of input files: auto, lines, titles, csv, jsonl, bibtex, ris, csl-json, enw,
    /// endnote-xml, nbib or wos
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    pub format: String,
    /// The lines of input files are titles, to be searched for at Crossref and OpenAlex; the same
    /// as --format titles
    #[arg(long, conflicts_with = "format")]
    pub titles: bool,
    /// Continue the job of the directory, with its options; of a manifest among the inputs, files
    /// that it records are kept and not downloaded again
    #[arg(long)]
    pub resume: bool,
    /// Retry works that failed, with the options of the directory's job
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
    #[arg(long, value_name = "YEAR", value_parser = quantity::year, help_heading = "Query")]
    pub year_start: Option<i32>,
    /// Published in this year or earlier
    #[arg(long, value_name = "YEAR", value_parser = quantity::year, help_heading = "Query")]
    pub year_end: Option<i32>,
    /// Maximum works of a query
    #[arg(long, value_name = "N", value_parser = quantity::count, help_heading = "Query")]
    pub max: Option<u64>,
    #[command(flatten)]
    pub choice: ResolverFlags,
    /// Name files by their checksum: the same bytes are one file
    #[arg(
        long,
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        help_heading = "Files"
    )]
    pub content_addressed: Option<bool>,
    /// Start no more downloads after this many bytes, e.g. 10G; current downloads finish
    #[arg(long, value_name = "SIZE", value_parser = quantity::size, help_heading = "Files")]
    pub max_bytes: Option<u64>,
    /// Stop when less disk space than this is free, in MiB or as 2G
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "64",
        value_parser = quantity::size_of_mebibytes,
        help_heading = "Files"
    )]
    pub min_free: u64,
    /// Minimum size of a PDF, in bytes or as 10K [default: 1024]
    #[arg(long, value_name = "SIZE", value_parser = quantity::size, help_heading = "Files")]
    pub min_pdf_bytes: Option<u64>,
    /// Maximum requests for one work [default: 20]
    #[arg(
        long,
        value_name = "N",
        value_parser = quantity::number(1..=u32::MAX),
        help_heading = "Limits of a run"
    )]
    pub max_attempts: Option<u32>,
    /// Maximum time for one work, in seconds or as 10m
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = quantity::duration,
        help_heading = "Limits of a run"
    )]
    pub item_deadline: Option<Duration>,
    /// Longest wait for paused hosts at the end of a run, in seconds or as 2h; 0 does not wait
    /// [default: 1h]
    #[arg(
        long,
        alias = "max-park",
        value_name = "DURATION",
        value_parser = quantity::duration,
        help_heading = "Limits of a run"
    )]
    pub max_wait: Option<Duration>,
    /// Ignore robots.txt (recorded in the summary)
    #[arg(
        long,
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        hide_possible_values = true,
        help_heading = "Limits of a run"
    )]
    pub ignore_robots: Option<bool>,
    /// Refuse loopback and private addresses for URLs in inputs, in this run and in later ones
    #[arg(long, help_heading = "Inputs")]
    pub untrusted_input: bool,
}

impl DownloadArguments {
    /// Returns the name of the format of the input files.
    pub(crate) fn list_format(&self) -> &str {
        if self.titles { "titles" } else { &self.format }
    }
}

/// Flags that choose the sources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
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
    /// Your e-mail address, sent to services that want one [config: identity.mailto]
    #[arg(long, value_name = "EMAIL", help_heading = "Sources")]
    pub mailto: Option<String>,
}
