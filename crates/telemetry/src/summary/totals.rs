//! Computes the figures over all hosts: totals, failures, and the minimum time under the limits.

use docstokg_hub::config::show::change_hint;
use docstokg_hub::policy::rate::window_in_words;

use super::load::{RunReader, SummaryError, integer};
use super::{
    FAILED_REQUEST, FailureSummary, HostSummary, Makespan, RunTotals, minimum, share_of_whole,
};

impl RunReader<'_> {
    pub(super) fn totals(&self, duration_s: f64) -> Result<RunTotals, SummaryError> {
        let mut totals = RunTotals {
            duration_s,
            ..RunTotals::default()
        };
        self.each(
            "SELECT count(*), coalesce(sum(retry_count > 0), 0),
                    coalesce(sum(status IS 429), 0), coalesce(sum(status IS 503), 0),
                    coalesce(sum(bytes), 0), coalesce(sum(bytes * wasted), 0)
             FROM http_events WHERE (run_id = ?1 OR ?1 IS NULL) AND sent = 1",
            |row| {
                totals.attempts = integer(row, 0)?;
                totals.retries = integer(row, 1)?;
                totals.status_429 = integer(row, 2)?;
                totals.status_503 = integer(row, 3)?;
                totals.bytes = integer(row, 4)?;
                totals.wasted_bytes = integer(row, 5)?;
                Ok(())
            },
        )?;
        self.read_cache(&mut totals)?;
        totals.http_429_ratio = share_of_whole(totals.status_429, totals.attempts).unwrap_or(0.0);
        totals.http_503_ratio = share_of_whole(totals.status_503, totals.attempts).unwrap_or(0.0);
        let ends = format!(
            "SELECT count(*), coalesce(sum({FAILED_REQUEST}), 0),
                    coalesce(sum(error IS 'cancelled'), 0)
             FROM request_ends WHERE run_id = ?1 OR ?1 IS NULL"
        );
        self.each(&ends, |row| {
            totals.requests = integer(row, 0)?;
            totals.failed = integer(row, 1)?;
            totals.succeeded = totals.requests - totals.failed - integer(row, 2)?;
            Ok(())
        })?;
        self.each(
            "SELECT coalesce(sum(dropped + lost), 0) FROM run_summary
             WHERE run_id = ?1 OR ?1 IS NULL",
            |row| {
                totals.telemetry_lost = integer(row, 0)?;
                Ok(())
            },
        )?;
        Ok(totals)
    }

    fn read_cache(&self, totals: &mut RunTotals) -> Result<(), SummaryError> {
        if !self.has_cache_events()? {
            return Ok(());
        }
        self.each(
            "SELECT coalesce(sum(action IN ('hit', 'stale')), 0),
                    coalesce(sum(action = 'revalidated'), 0), max(age_s)
             FROM cache_events WHERE run_id = ?1 OR ?1 IS NULL",
            |row| {
                totals.cache_hits = integer(row, 0)?;
                totals.cache_revalidated = integer(row, 1)?;
                totals.cache_oldest_s = row.get(2)?;
                Ok(())
            },
        )?;
        let look_ups = totals.attempts + totals.cache_hits;
        totals.cache_hit_ratio = share_of_whole(totals.cache_hits, look_ups);
        Ok(())
    }

    pub(super) fn failures(&self) -> Result<Vec<FailureSummary>, SummaryError> {
        let mut failures: Vec<FailureSummary> = Vec::new();
        self.each(
            &format!(
                "SELECT coalesce(error, 'http_' || status, 'unknown') AS reason, host,
                        count(*) AS n
                 FROM request_ends WHERE (run_id = ?1 OR ?1 IS NULL) AND {FAILED_REQUEST}
                 GROUP BY reason, host ORDER BY reason, n DESC"
            ),
            |row| {
                let (reason, host): (String, String) = (row.get(0)?, row.get(1)?);
                let requests = integer(row, 2)?;
                match failures.last_mut().filter(|last| last.reason == reason) {
                    Some(last) => {
                        last.requests += requests;
                        if last.hosts.len() < 5 {
                            last.hosts.push(host);
                        }
                    }
                    None => failures.push(FailureSummary {
                        reason,
                        requests,
                        hosts: vec![host],
                    }),
                }
                Ok(())
            },
        )?;
        failures.sort_by(|a, b| {
            b.requests
                .cmp(&a.requests)
                .then_with(|| a.reason.cmp(&b.reason))
        });
        Ok(failures)
    }

    pub(super) fn makespan(
        &self,
        seconds: f64,
        hosts: &[HostSummary],
    ) -> Result<Makespan, SummaryError> {
        let mut best = Makespan {
            seconds,
            ..Makespan::default()
        };
        self.each(
            "SELECT b.budget, b.rates, b.host, sum(r.weight), b.role
             FROM (SELECT DISTINCT host, role, kind, budget, rates FROM budgets
                   WHERE run_id = ?1 OR ?1 IS NULL) b
             JOIN (SELECT host, role, kind,
                          sum(CASE action WHEN 'acquire' THEN weight ELSE -weight END) AS weight
                   FROM rate_events
                   WHERE (run_id = ?1 OR ?1 IS NULL) AND action IN ('acquire', 'given_back')
                   GROUP BY host, role, kind) r
             ON r.host = b.host AND r.role = b.role AND r.kind IS b.kind
             GROUP BY b.budget, b.rates",
            |row| {
                let (budget, rates): (String, String) = (row.get(0)?, row.get(1)?);
                let host: String = row.get(2)?;
                let latency_ms = hosts
                    .iter()
                    .filter(|known| known.host == host)
                    .map(|known| known.latency.p50_ms)
                    .fold(0.0, f64::max);
                let (by_limits, window) = minimum::seconds(&rates, integer(row, 3)?);
                let by_answer = latency_ms / 1_000.0;
                let least = by_limits + by_answer;
                if least > best.minimum_s {
                    best.minimum_s = least;
                    best.bottleneck = Some(format!("{budget} ({rates})"));
                    // If one slow response took longer than the limits require, no limit determined
                    // the time of the run.
                    let role: String = row.get(4)?;
                    best.limit = window.filter(|_| by_limits > by_answer).map(|window| {
                        let (words, role) = (window_in_words(&window), role.parse());
                        let hint = role.map(|role| change_hint(&host, role));
                        let hint = hint.map_or_else(|_| String::new(), |hint| format!("; {hint}"));
                        format!("{words} at {budget}{hint}")
                    });
                }
                Ok(())
            },
        )?;
        best.ratio = (best.minimum_s > 0.0).then(|| best.seconds / best.minimum_s);
        Ok(best)
    }
}
