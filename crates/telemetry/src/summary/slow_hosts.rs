//! The hosts that were slow to respond: limits do not explain the time that they took.

use super::{HostSummary, RunSummary, seconds};

/// The median time of a response, in milliseconds, from which on a host is called slow.
const SLOW_MS: f64 = 2_000.0;
/// Maximum slow hosts that are named.
const MAX_SLOW_HOSTS: usize = 5;

/// Writes the hosts that were slow to respond, the slowest first.
pub(super) fn text(summary: &RunSummary) -> String {
    let is_slow = |host: &&HostSummary| host.latency.p50_ms >= SLOW_MS;
    let mut hosts: Vec<&HostSummary> = summary.hosts.iter().filter(is_slow).collect();
    hosts.sort_by(|a, b| b.latency.p50_ms.total_cmp(&a.latency.p50_ms));
    let shown: Vec<String> = hosts
        .iter()
        .take(MAX_SLOW_HOSTS)
        .map(|host| {
            let median = seconds(host.latency.p50_ms / 1_000.0);
            format!(
                "{}:{} {median} ({} sent)",
                host.host, host.role, host.requests
            )
        })
        .collect();
    if shown.is_empty() {
        return String::new();
    }
    format!("slow to respond (median): {}\n", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{Distribution, RunInfo};

    #[test]
    fn a_host_that_takes_seconds_is_named_and_a_quick_one_is_not() {
        let host = |name: &str, p50_ms: f64| HostSummary {
            host: name.to_owned(),
            role: "artifact".to_owned(),
            requests: 10,
            latency: Distribution {
                p50_ms,
                ..Distribution::default()
            },
            ..HostSummary::default()
        };
        let mut summary = RunSummary {
            run: RunInfo {
                run_id: String::new(),
                command: String::new(),
                config_hash: String::new(),
                started_at: String::new(),
                finished_at: None,
                state: "finished",
            },
            totals: crate::summary::RunTotals::default(),
            makespan: crate::summary::Makespan::default(),
            hosts: vec![host("quick.example", 80.0), host("slow.example", 6_040.0)],
            breakers: Vec::new(),
            failures: Vec::new(),
            top_by_delay: Vec::new(),
            top_by_blocks: Vec::new(),
        };
        assert_eq!(
            text(&summary),
            "slow to respond (median): slow.example:artifact 6.04 s (10 sent)\n"
        );
        summary.hosts.truncate(1);
        assert_eq!(text(&summary), "");
    }
}
