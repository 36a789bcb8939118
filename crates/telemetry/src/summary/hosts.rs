//! The figures of each host and role.

use std::collections::BTreeMap;

use super::load::{GroupKey, RunReader, SummaryError, integer, key};
use super::{Distribution, HostSummary, ThrottleCounts, share_of_whole};

type HostSummaries = BTreeMap<GroupKey, HostSummary>;
/// A function that selects one [`Distribution`] of a host.
type DistributionField = fn(&mut HostSummary) -> &mut Distribution;

fn at(hosts: &mut HostSummaries, key: GroupKey) -> &mut HostSummary {
    let (host, role) = key.clone();
    hosts.entry(key).or_insert_with(|| HostSummary {
        host,
        role,
        ..HostSummary::default()
    })
}

impl RunReader<'_> {
    pub(super) fn hosts(&self) -> Result<Vec<HostSummary>, SummaryError> {
        let mut hosts = HostSummaries::new();
        self.read_attempts(&mut hosts)?;
        self.read_cache_hits(&mut hosts)?;
        self.read_tokens(&mut hosts)?;
        self.read_distribution(&mut hosts, "rate_delay_ms", |host| &mut host.delay)?;
        self.read_distribution(&mut hosts, "rate_concurrency_wait_ms", |host| {
            &mut host.concurrency_wait
        })?;
        self.read_distribution(&mut hosts, "elapsed_ms", |host| &mut host.latency)?;
        self.read_stops(&mut hosts)?;
        self.each(
            "SELECT host, role, new FROM aimd_events WHERE run_id = ?1 OR ?1 IS NULL
             ORDER BY ts, rowid",
            |row| {
                at(&mut hosts, key(row)?).multiplier = Some(row.get(2)?);
                Ok(())
            },
        )?;
        Ok(hosts.into_values().collect())
    }

    fn read_attempts(&self, hosts: &mut HostSummaries) -> Result<(), SummaryError> {
        self.each(
            "SELECT host, role, sum(sent), sum(sent = 0),
                    sum(status IS 429 AND retry_after_s IS NOT NULL),
                    sum(status IS 429 AND retry_after_s IS NULL),
                    sum(status IS 503 AND retry_after_s IS NOT NULL),
                    sum(status IS 503 AND retry_after_s IS NULL),
                    sum(retry_count > 0 AND sent = 1),
                    sum(bytes), sum(bytes * wasted)
             FROM http_events WHERE run_id = ?1 OR ?1 IS NULL GROUP BY host, role",
            |row| {
                let host = at(hosts, key(row)?);
                host.requests = integer(row, 2)?;
                host.denied = integer(row, 3)?;
                host.status_429 = ThrottleCounts {
                    with_retry_after: integer(row, 4)?,
                    without_retry_after: integer(row, 5)?,
                };
                host.status_503 = ThrottleCounts {
                    with_retry_after: integer(row, 6)?,
                    without_retry_after: integer(row, 7)?,
                };
                host.retries = integer(row, 8)?;
                host.bytes = integer(row, 9)?;
                host.wasted_bytes = integer(row, 10)?;
                Ok(())
            },
        )
    }

    fn read_cache_hits(&self, hosts: &mut HostSummaries) -> Result<(), SummaryError> {
        for host in hosts.values_mut() {
            host.cache_hit_ratio = share_of_whole(0, host.requests);
        }
        if !self.has_cache_events()? {
            return Ok(());
        }
        self.each(
            "SELECT host, role, count(*) FROM cache_events
             WHERE (run_id = ?1 OR ?1 IS NULL) AND action IN ('hit', 'stale')
             GROUP BY host, role",
            |row| {
                let host = at(hosts, key(row)?);
                let hits = integer(row, 2)?;
                host.cache_hit_ratio = share_of_whole(hits, host.requests + hits);
                Ok(())
            },
        )
    }

    fn read_tokens(&self, hosts: &mut HostSummaries) -> Result<(), SummaryError> {
        self.each(
            "SELECT host, role,
                    sum(CASE action WHEN 'acquire' THEN weight
                                    WHEN 'given_back' THEN -weight ELSE 0 END),
                    sum(action = 'block'), sum(action = 'head_skip')
             FROM rate_events WHERE run_id = ?1 OR ?1 IS NULL GROUP BY host, role",
            |row| {
                let host = at(hosts, key(row)?);
                host.acquired = integer(row, 2)?;
                host.blocked = integer(row, 3)?;
                host.head_skipped = integer(row, 4)?;
                Ok(())
            },
        )
    }

    /// Reads the [`Distribution`] of one column for each host and role. The query sorts its rows by
    /// host and role, then by value.
    fn read_distribution(
        &self,
        hosts: &mut HostSummaries,
        column: &str,
        field: DistributionField,
    ) -> Result<(), SummaryError> {
        let sql = format!(
            "SELECT host, role, {column} FROM http_events
             WHERE (run_id = ?1 OR ?1 IS NULL) AND sent = 1 ORDER BY host, role, {column}"
        );
        let mut values: Vec<f64> = Vec::new();
        let mut current: Option<GroupKey> = None;
        self.each(&sql, |row| {
            let this = key(row)?;
            if current.as_ref() != Some(&this)
                && let Some(done) = current.replace(this)
            {
                *field(at(hosts, done)) = Distribution::of(&values);
                values.clear();
            }
            values.push(row.get(2)?);
            Ok(())
        })?;
        if let Some(done) = current {
            *field(at(hosts, done)) = Distribution::of(&values);
        }
        Ok(())
    }

    fn read_stops(&self, hosts: &mut HostSummaries) -> Result<(), SummaryError> {
        self.each(
            "SELECT host, role, stopped, count(*) FROM request_ends
             WHERE (run_id = ?1 OR ?1 IS NULL) AND stopped IS NOT NULL
             GROUP BY host, role, stopped",
            |row| {
                let (why, count): (String, _) = (row.get(2)?, integer(row, 3)?);
                at(hosts, key(row)?).stopped.insert(why, count);
                Ok(())
            },
        )
    }
}
