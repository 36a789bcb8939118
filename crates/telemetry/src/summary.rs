//! Reads the figures of a run from the database of runs.
//!
//! A run can be summarised while it is active, after its end, and after it was killed.

mod breakers;
mod compare;
mod hosts;
pub mod limits;
mod load;
mod minimum;
mod robots;
mod slo;
mod slow_hosts;
mod text;
mod totals;
mod waits;

use std::collections::BTreeMap;

use serde::Serialize;

pub use compare::compare;
pub use load::{RunChoice, RunListing, SummaryError, list, load, runs};
pub use robots::{LatestRobots, latest_robots};
pub use slo::{TargetCheck, check};
pub use text::{bytes, comparison_text, table, text};
pub(crate) use text::{percent, reason_counts, seconds};
pub use waits::{KeyTally, RecentWait, recent_waits, tallies_by_key};

/// An SQL expression that is 1 for rows of `request_ends` that count as failures, otherwise 0. A
/// site without robots.txt, a look-up with status 404 and a cancelled request are not failures.
pub(crate) const FAILED_REQUEST: &str = "(CASE WHEN error IS 'cancelled' THEN 0
           WHEN error IS NOT NULL OR status IS NULL THEN 1
           WHEN status < 400 THEN 0
           WHEN status < 500 AND status <> 429 AND coalesce(url, '') LIKE '%/robots.txt' THEN 0
           WHEN status = 404 AND role = 'metadata' AND resolver IS NOT NULL THEN 0
           ELSE 1 END)";

/// The figures of a run, or of all runs together, from [`load()`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunSummary {
    /// The identity of the run.
    pub run: RunInfo,
    /// The figures over all hosts.
    pub totals: RunTotals,
    /// The time of the run, and the minimum that its limits allow.
    pub makespan: Makespan,
    /// The figures of each host and role.
    pub hosts: Vec<HostSummary>,
    /// The figures of each breaker that opened, was probed or denied a request.
    pub breakers: Vec<BreakerSummary>,
    /// The reasons of failures, most frequent first.
    pub failures: Vec<FailureSummary>,
    /// The hosts and roles whose requests waited longest for rate limits, in total.
    pub top_by_delay: Vec<RankedEntry>,
    /// The hosts and roles with the most refused requests.
    pub top_by_blocks: Vec<RankedEntry>,
}

/// The identity of a run in its [`RunSummary`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunInfo {
    /// The id of the run, or `all`.
    pub run_id: String,
    /// The command of the run.
    pub command: String,
    /// The fingerprint of the configuration.
    pub config_hash: String,
    /// The start of the run.
    pub started_at: String,
    /// The end of the run; `None` if the run is active or was killed.
    pub finished_at: Option<String>,
    /// `finished`, `running` or `killed`.
    pub state: &'static str,
}

/// The figures of a run over all its hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunTotals {
    /// Seconds from the first request to the last response.
    pub duration_s: f64,
    /// Number of requests that ended.
    pub requests: u64,
    /// Number of requests that ended with a status below 400.
    pub succeeded: u64,
    /// Number of requests that failed.
    pub failed: u64,
    /// Number of attempts that were sent, including redirects and retries.
    pub attempts: u64,
    /// Number of attempts after the first at each URL of a request.
    pub retries: u64,
    /// Number of tokens that were spent.
    pub tokens_acquired: u64,
    /// Number of requests that the limiter refused.
    pub limiter_blocks: u64,
    /// Number of requests that an open breaker refused.
    pub breaker_denials: u64,
    /// Number of HEAD requests that spent no token.
    pub head_skipped: u64,
    /// Number of responses with status 429.
    pub status_429: u64,
    /// Number of responses with status 503.
    pub status_503: u64,
    /// Share of attempts with status 429.
    pub http_429_ratio: f64,
    /// Share of attempts with status 503.
    pub http_503_ratio: f64,
    /// Number of times that a breaker opened.
    pub opens: u64,
    /// Opens per hour; `None` if the run took less than ten minutes.
    pub opens_per_hour: Option<f64>,
    /// Number of opens by reason.
    pub open_reasons: BTreeMap<String, u64>,
    /// Share of opens by reason.
    pub open_reason_shares: BTreeMap<String, f64>,
    /// Share of look-ups in the cache that found a usable response; `None` without look-ups.
    pub cache_hit_ratio: Option<f64>,
    /// Number of responses from the cache that the origin did not confirm: they needed no request,
    /// or the origin did not respond.
    pub cache_hits: u64,
    /// Number of responses from the cache that the origin confirmed as unchanged.
    pub cache_revalidated: u64,
    /// The age of the oldest response from the cache, in seconds.
    pub cache_oldest_s: Option<f64>,
    /// Number of bytes received over the wire.
    pub bytes: u64,
    /// Number of received bytes that were wasted, see
    /// [`HttpRecord::wasted`](crate::record::HttpRecord::wasted).
    pub wasted_bytes: u64,
    /// Seconds that requests waited for rate limits, added up over all requests.
    pub rate_delay_s: f64,
    /// Estimated seconds saved because no requests were sent to paused hosts.
    pub time_saved_s: f64,
    /// Number of dropped events and lost records of the telemetry itself.
    pub telemetry_lost: u64,
}

/// The time of a run, and the minimum that its limits allow.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Makespan {
    /// Seconds from the first request to the last response.
    pub seconds: f64,
    /// Minimum seconds that the windows of the busiest budget allow, plus one response.
    pub minimum_s: f64,
    /// `seconds` divided by `minimum_s`; `None` if the minimum is 0.
    pub ratio: Option<f64>,
    /// The budget that determines the minimum.
    pub bottleneck: Option<String>,
    /// The limit that causes most of the minimum, in words, with the way to change it. `None` if a
    /// response takes longer than the waits for the limits.
    pub limit: Option<String>,
}

/// A distribution of waits or durations, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// Median of the values, in milliseconds.
    pub p50_ms: f64,
    /// 95th percentile, in milliseconds.
    pub p95_ms: f64,
    /// 99th percentile, in milliseconds.
    pub p99_ms: f64,
    /// Largest value, in milliseconds.
    pub max_ms: f64,
    /// Sum of all values, in milliseconds.
    pub total_ms: f64,
}

/// Numbers of responses with one status, with and without `Retry-After`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThrottleCounts {
    /// Number of responses with `Retry-After`.
    pub with_retry_after: u64,
    /// Number of responses without `Retry-After`.
    pub without_retry_after: u64,
}

/// The figures of a host and role in a [`RunSummary`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HostSummary {
    /// The name of the host.
    pub host: String,
    /// The role of the requests.
    pub role: String,
    /// Number of attempts that were sent to the host.
    pub requests: u64,
    /// Number of tokens that were spent.
    pub acquired: u64,
    /// Number of requests that the limiter refused.
    pub blocked: u64,
    /// Number of requests that a breaker refused.
    pub denied: u64,
    /// Number of HEAD requests that spent no token.
    pub head_skipped: u64,
    /// The times that requests waited for a rate limit.
    pub delay: Distribution,
    /// The times that requests waited for a slot.
    pub concurrency_wait: Distribution,
    /// The times from sending to the end of the body.
    pub latency: Distribution,
    /// Responses with status 429.
    pub status_429: ThrottleCounts,
    /// Responses with status 503.
    pub status_503: ThrottleCounts,
    /// Share of look-ups in the cache that found a usable response; `None` without look-ups.
    pub cache_hit_ratio: Option<f64>,
    /// Number of attempts after the first at each URL of a request.
    pub retries: u64,
    /// Number of failed requests by the reason why their attempt was not repeated.
    pub stopped: BTreeMap<String, u64>,
    /// The multiplier of the configured rate at the end of the run; `None` if it did not change.
    pub multiplier: Option<f64>,
    /// Number of bytes received over the wire.
    pub bytes: u64,
    /// Number of received bytes that were wasted.
    pub wasted_bytes: u64,
}

/// The figures of a breaker in a [`RunSummary`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BreakerSummary {
    /// The scope of the breaker: `host`, `site`, `role`, `resolver` or `network`.
    pub scope: String,
    /// The name of the host, site or resolver, or `HOST:ROLE` if only the breaker of one role was
    /// open.
    pub key: String,
    /// Number of times that the breaker opened.
    pub opens: u64,
    /// Opens per hour; `None` if the run took less than ten minutes.
    pub opens_per_hour: Option<f64>,
    /// Seconds during which the breaker was open.
    pub open_s: f64,
    /// Number of opens by reason.
    pub reasons: BTreeMap<String, u64>,
    /// Share of opens by reason.
    pub reason_shares: BTreeMap<String, f64>,
    /// Number of probes after an open.
    pub probes: u64,
    /// Number of successful probes.
    pub probe_successes: u64,
    /// Number of opens that were probed. An outage with any number of failed early probes counts
    /// once.
    pub probed_opens: u64,
    /// The share of `probed_opens` that a successful probe ended; `None` if that number is 0.
    pub success_after_open: Option<f64>,
    /// Number of requests that the breaker denied while it was open.
    pub requests_avoided: u64,
    /// Estimated seconds saved by denied requests: for each, the remaining cooldown or the host's
    /// mean latency, whichever is smaller.
    pub time_saved_s: f64,
    /// Number of responses whose `Retry-After` was longer than the configured open time of the
    /// breaker.
    pub retry_after_over_reset: u64,
    /// The 95th percentile of the lengths of inferred opens, divided by the configured open time of
    /// the breaker. An open is inferred if neither a server nor an operator declared its length.
    pub block_p95_over_reset: Option<f64>,
}

/// A reason why requests failed, with the number of requests and their hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FailureSummary {
    /// The word for the reason, such as `http_404`, `timeout` or `breaker_open`.
    pub reason: String,
    /// Number of requests that ended with the reason.
    pub requests: u64,
    /// The hosts with the most failures of this reason.
    pub hosts: Vec<String>,
}

/// An entry of a ranking in a [`RunSummary`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankedEntry {
    /// The host of the entry.
    pub host: String,
    /// The role of the entry.
    pub role: String,
    /// The figure by which the entry is ranked: seconds of waiting, or number of refusals.
    pub value: f64,
}

/// Returns the share `part / whole`; `None` if `whole` is 0.
#[expect(clippy::cast_precision_loss, reason = "counts fit")]
pub(crate) fn share_of_whole(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Returns the share of each count in the sum of all counts.
pub(crate) fn shares(counts: &BTreeMap<String, u64>) -> BTreeMap<String, f64> {
    let all = counts.values().sum();
    let share_of =
        |(name, count): (&String, &u64)| Some((name.clone(), share_of_whole(*count, all)?));
    counts.iter().filter_map(share_of).collect()
}

impl Distribution {
    /// Computes the [`Distribution`] of sorted values.
    pub(crate) fn of(sorted: &[f64]) -> Self {
        let rank = |percent: usize| {
            sorted
                .get((sorted.len() * percent).div_ceil(100).saturating_sub(1))
                .copied()
                .unwrap_or(0.0)
        };
        Self {
            p50_ms: rank(50),
            p95_ms: rank(95),
            p99_ms: rank(99),
            max_ms: sorted.last().copied().unwrap_or(0.0),
            total_ms: sorted.iter().sum(),
        }
    }
}
