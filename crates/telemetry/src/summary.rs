//! The figures of a run, read from the database of runs whether it is finished, running or was
//! killed.

mod breakers;
mod compare;
mod hosts;
pub mod limits;
mod load;
mod minimum;
mod robots;
mod slo;
mod text;
mod totals;
mod waits;

use std::collections::BTreeMap;

use serde::Serialize;

pub use compare::compare;
pub use load::{RunChoice, SummaryError, load, runs};
pub use robots::{LatestRobots, latest_robots};
pub use slo::{TargetCheck, check};
pub(crate) use text::{bytes, percent, reason_counts, seconds};
pub use text::{comparison_text, table, text};
pub use waits::{KeyTally, RecentWait, recent_waits, tallies_by_key};

/// SQL that is 1 for rows of `request_ends` that are failures. A site without robots.txt, a look-up
/// that a service answers with 404 and a cancelled request are not.
pub(crate) const FAILED_REQUEST: &str = "(CASE WHEN error IS 'cancelled' THEN 0
           WHEN error IS NOT NULL OR status IS NULL THEN 1
           WHEN status < 400 THEN 0
           WHEN status < 500 AND status <> 429 AND coalesce(url, '') LIKE '%/robots.txt' THEN 0
           WHEN status = 404 AND role = 'metadata' AND resolver IS NOT NULL THEN 0
           ELSE 1 END)";

/// The figures of a run, or of all runs together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunSummary {
    /// Which run.
    pub run: RunInfo,
    /// Over all hosts.
    pub totals: RunTotals,
    /// Makespan against the theoretical minimum.
    pub makespan: Makespan,
    /// Per host and role.
    pub hosts: Vec<HostSummary>,
    /// Per breaker that opened, was probed or denied a request.
    pub breakers: Vec<BreakerSummary>,
    /// Why requests failed, most frequent first.
    pub failures: Vec<FailureSummary>,
    /// The hosts and roles that waited longest for their rates.
    pub top_by_delay: Vec<RankedEntry>,
    /// The hosts and roles that were refused most often.
    pub top_by_blocks: Vec<RankedEntry>,
}

/// Which run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunInfo {
    /// Its id, or `all`.
    pub run_id: String,
    /// The command.
    pub command: String,
    /// The fingerprint of its configuration.
    pub config_hash: String,
    /// When it started.
    pub started_at: String,
    /// When it ended, if it ended by itself.
    pub finished_at: Option<String>,
    /// `finished`, `running` or `killed`.
    pub state: &'static str,
}

/// Figures over all hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunTotals {
    /// Seconds from the first request to the last answer.
    pub duration_s: f64,
    /// Requests that ended.
    pub requests: u64,
    /// Of these, answered with a status below 400.
    pub succeeded: u64,
    /// Of these, failed.
    pub failed: u64,
    /// Attempts that were sent, redirects and retries included.
    pub attempts: u64,
    /// Attempts after the first.
    pub retries: u64,
    /// Tokens spent.
    pub tokens_acquired: u64,
    /// Requests refused by the limiter.
    pub limiter_blocks: u64,
    /// Requests refused by a breaker.
    pub breaker_denials: u64,
    /// HEAD requests that spent no token.
    pub head_skipped: u64,
    /// Answers 429.
    pub status_429: u64,
    /// Answers 503.
    pub status_503: u64,
    /// Share of attempts answered with 429.
    pub http_429_ratio: f64,
    /// Share of attempts answered with 503.
    pub http_503_ratio: f64,
    /// Opens of breakers.
    pub opens: u64,
    /// Opens per hour; `None` for less than ten minutes.
    pub opens_per_hour: Option<f64>,
    /// Reasons of opens, and how often each.
    pub open_reasons: BTreeMap<String, u64>,
    /// The share of each reason.
    pub open_reason_shares: BTreeMap<String, f64>,
    /// Answers from the cache among all look-ups, where there were any.
    pub cache_hit_ratio: Option<f64>,
    /// Answers from the cache for which the origin was not asked, or did not answer.
    pub cache_hits: u64,
    /// Answers from the cache that the origin confirmed.
    pub cache_revalidated: u64,
    /// The age of the oldest answer from the cache, in seconds.
    pub cache_oldest_s: Option<f64>,
    /// Bytes received over the wire.
    pub bytes: u64,
    /// Of these, wasted.
    pub wasted_bytes: u64,
    /// Seconds that requests waited for rates, together.
    pub rate_delay_s: f64,
    /// Seconds saved by not sending requests to paused hosts, estimated.
    pub time_saved_s: f64,
    /// Events that telemetry dropped, and records that it lost.
    pub telemetry_lost: u64,
}

/// How long a run took, and how long its limits make it take at least.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Makespan {
    /// Seconds from the first request to the last answer.
    pub seconds: f64,
    /// The least that the windows of the busiest budget allow, and one answer.
    pub minimum_s: f64,
    /// The first over the second.
    pub ratio: Option<f64>,
    /// The budget that determines the minimum.
    pub bottleneck: Option<String>,
    /// The limit that most of the minimum is waited for, in words, and how to change it; `None`
    /// where an answer takes longer than the limits make wait.
    pub limit: Option<String>,
}

/// A distribution, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// Median.
    pub p50_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Largest.
    pub max_ms: f64,
    /// Sum.
    pub total_ms: f64,
}

/// How often a status was received, with and without the time of a retry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ThrottleCounts {
    /// With `Retry-After`.
    pub with_retry_after: u64,
    /// Without.
    pub without_retry_after: u64,
}

/// One host and role.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HostSummary {
    /// The host.
    pub host: String,
    /// The role.
    pub role: String,
    /// Attempts that were sent, which the origin received.
    pub requests: u64,
    /// Tokens spent.
    pub acquired: u64,
    /// Requests refused by the limiter.
    pub blocked: u64,
    /// Requests refused by a breaker.
    pub denied: u64,
    /// HEAD requests that spent no token.
    pub head_skipped: u64,
    /// The wait for the rate.
    pub delay: Distribution,
    /// The wait for a slot.
    pub concurrency_wait: Distribution,
    /// The time from sending to the end of the body.
    pub latency: Distribution,
    /// Answers 429.
    pub status_429: ThrottleCounts,
    /// Answers 503.
    pub status_503: ThrottleCounts,
    /// Answers from the cache among all look-ups.
    pub cache_hit_ratio: Option<f64>,
    /// Attempts after the first.
    pub retries: u64,
    /// Why there was no further attempt, and how often.
    pub stopped: BTreeMap<String, u64>,
    /// The adaptive multiplier at the end, where it moved.
    pub multiplier: Option<f64>,
    /// Bytes received over the wire.
    pub bytes: u64,
    /// Of these, wasted.
    pub wasted_bytes: u64,
}

/// One breaker.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BreakerSummary {
    /// `host`, `site`, `role`, `resolver` or `network`.
    pub scope: String,
    /// The host, site or resolver, or `HOST:ROLE` where a role was open alone.
    pub key: String,
    /// How often it opened.
    pub opens: u64,
    /// Per hour; `None` for less than ten minutes.
    pub opens_per_hour: Option<f64>,
    /// Seconds that it was open.
    pub open_s: f64,
    /// Reasons, and how often each.
    pub reasons: BTreeMap<String, u64>,
    /// The share of each reason.
    pub reason_shares: BTreeMap<String, f64>,
    /// Probes after an open.
    pub probes: u64,
    /// Of these, successful.
    pub probe_successes: u64,
    /// Opens that were probed: an outage counts once, however many of its early probes failed.
    pub probed_opens: u64,
    /// The share of probed opens that a success ended.
    pub success_after_open: Option<f64>,
    /// Requests that it denied while it was open.
    pub requests_avoided: u64,
    /// Seconds saved by that, estimated: for each the smaller of the remaining cooldown and the
    /// host's mean latency.
    pub time_saved_s: f64,
    /// How often `Retry-After` asked for more than the breaker's own reset.
    pub retry_after_over_reset: u64,
    /// The 95th percentile of the lengths of inferred opens, over the breaker's own reset.
    pub block_p95_over_reset: Option<f64>,
}

/// One reason of failures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FailureSummary {
    /// `http_404`, `timeout`, `breaker_open`, ...
    pub reason: String,
    /// Requests that ended with it.
    pub requests: u64,
    /// The hosts where it occurred most.
    pub hosts: Vec<String>,
}

/// An entry of a ranking.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankedEntry {
    /// The host.
    pub host: String,
    /// The role.
    pub role: String,
    /// What it is ranked by: seconds of delay, or refusals.
    pub value: f64,
}

/// Returns the share `part / whole`; `None` when `whole` is 0.
#[expect(clippy::cast_precision_loss, reason = "counts fit")]
pub(crate) fn share_of_whole(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Returns the share of each count in their sum.
pub(crate) fn shares(counts: &BTreeMap<String, u64>) -> BTreeMap<String, f64> {
    let all = counts.values().sum();
    let share_of =
        |(name, count): (&String, &u64)| Some((name.clone(), share_of_whole(*count, all)?));
    counts.iter().filter_map(share_of).collect()
}

impl Distribution {
    /// Computes the distribution of sorted values.
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
