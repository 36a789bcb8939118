//! The groups of keys that bulk runs and their records have.

use std::num::NonZeroU32;

use serde_json::{Value as Json, json};

use super::{Layer, with_about};
use crate::config::keys::{Described, Key};
use crate::config::problem::Sourced;
use crate::config::reader::{FromNode, Hidden, MapReader, Section};

section! {
    /// Where the services are. Anything but the defaults is for mirrors and tests.
    EndpointSettings {
        /// The API of OpenAlex
        openalex: String = "its public address",
        /// The files that OpenAlex keeps
        openalex_content: String = "its public address",
        /// Unpaywall, with its version
        unpaywall: String = "its public address",
        /// Crossref
        crossref: String = "its public address",
        /// DataCite, for the DOIs that Crossref does not know
        datacite: String = "its public address",
        /// The host that arXiv keeps for robots
        arxiv: String = "its public address",
        /// PMC's converter of identifiers
        pmc_id_converter: String = "its public address",
        /// PMC's open-access files
        pmc_bucket: String = "its public address",
        /// The API of Europe PMC
        europe_pmc: String = "its public address",
        /// The articles of Europe PMC
        europe_pmc_articles: String = "its public address",
        /// The resolver of DOIs
        doi: String = "its public address",
        /// The Wayback Machine
        wayback: String = "its public address",
    }
}

section! {
    /// Who is asked where files are.
    ResolverSettings {
        /// How far to go: `fast` (services that answer quickly) or `broad` (pages of publishers and
        /// archives, too)
        preset: String = "broad",
        /// Whom to ask first, joined by commas; the rest of the preset follows
        order: String = "by what is known of a work",
        /// Whom to ask beyond the preset, joined by commas
        enable: String = "none",
        /// Whom not to ask, joined by commas
        disable: String = "none",
        /// The key of OpenAlex
        openalex_api_key: Hidden = "none",
        /// The address for Unpaywall, where it differs from `identity.mailto`
        unpaywall_email: Hidden = "`identity.mailto`",
        /// The token of Crossref Plus
        crossref_plus_token: Hidden = "none",
        /// The key for text mining at Elsevier; sent to api.elsevier.com only
        elsevier_api_key: Hidden = "none",
        /// The token of your institution at Elsevier, beside the key
        elsevier_insttoken: Hidden = "none",
        /// The token for text mining at Wiley; sent to api.wiley.com only
        wiley_tdm_token: Hidden = "none",
        /// Whether to use the files that OpenAlex keeps and charges for
        paid_content: bool = "false",
        @endpoints: EndpointSettings,
    }
}

section! {
    /// What a run is expected to keep to; `docstokg summary --slo` compares.
    SloSettings {
        /// The smallest share of probes after an open that succeed
        success_after_open_min: f64 = "0.5",
        /// The most by which the 95th percentile of inferred opens may exceed the breaker's
        /// `reset_timeout_s`, as a factor
        breaker_block_p95_over_reset_max: f64 = "1",
        /// The largest share of attempts answered with 429
        http_429_ratio_max: f64 = "0.05",
        /// The largest share of attempts answered with 503
        http_503_ratio_max: f64 = "0.05",
        /// The largest 95th percentile of the wait for the rate, in milliseconds, on any host and
        /// role
        rate_delay_p95_ms_max: f64 = "none",
        /// The most opens per hour of any breaker
        opens_per_hour_max: f64 = "none",
        /// The most events and records of telemetry that may be lost
        telemetry_lost_max: u64 = "0",
    }
}

section! {
    /// What is recorded about runs, and where.
    TelemetrySettings {
        /// Whether anything is recorded
        enabled: bool = "true",
        /// The database of all runs: a file, or `off`
        sqlite: String = "`telemetry.sqlite3` in the state directory",
        /// A file that gets every event as a line of JSON
        jsonl: String = "none",
        /// The size at which that file is put aside and begun anew, in MiB
        jsonl_rotate_mb: NonZeroU32 = "64",
        /// How many such files are kept beside the current one
        jsonl_keep: u32 = "5",
        /// A file that gets the metrics as Prometheus text, for the textfile collector
        prometheus_textfile: String = "none",
        /// How long runs are kept in the database, in days; 0 for ever
        keep_days: u32 = "30",
        /// How many events may wait to be written before further ones are dropped and counted
        queue: NonZeroU32 = "262144",
        @slo: SloSettings,
    }
}
