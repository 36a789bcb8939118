//! The figures of each host and role.

use std::collections::BTreeMap;

use super::load::{Key, Reader, SummaryError, key, whole};
use super::{HostSummary, Spread, Throttled, share};

/// One distribution of a host.
type Field = fn(&mut HostSummary) -> &mut Spread;

fn at(hosts: &mut BTreeMap<Key, HostSummary>, key: Key) -> &mut HostSummary {
    let (host, role) = key.clone();
    hosts.entry(key).or_insert_with(|| HostSummary {
        host,
        role,
        ..HostSummary::default()
    })
}

impl Reader<'_> {
    pub(super) fn hosts(&self) -> Result<Vec<HostSummary>, SummaryError> {
        let mut hosts: BTreeMap<Key, HostSummary> = BTreeMap::new();
        self.each(
            "SELECT host, role, sum(sent), sum(sent = 0), sum(status IS 429 AND retry_after_s IS NOT NULL), sum(status IS 429 AND retry_after_s IS NULL),
                    sum(status IS 503 AND retry_after_s IS NOT NULL), sum(status IS 503 AND retry_after_s IS NULL), sum(retry_count > 0 AND sent = 1),
                    sum(bytes), sum(bytes * wasted), sum(from_cache)
             FROM http_events WHERE run_id = ?1 OR ?1 IS NULL GROUP BY host, role",
            |row| {
                let host = at(&mut hosts, key(row)?);
                host.requests = whole(row, 2)?;
                host.denied = whole(row, 3)?;
                host.status_429 = Throttled { with_retry_after: whole(row, 4)?, without_retry_after: whole(row, 5)? };
                host.status_503 = Throttled { with_retry_after: whole(row, 6)?, without_retry_after: whole(row, 7)? };
                host.retries = whole(row, 8)?;
                host.bytes = whole(row, 9)?;
                host.wasted_bytes = whole(row, 10)?;
                host.cache_hit_ratio = share(whole(row, 11)?, host.requests);
                Ok(())
            },
        )?;
        self.each(
            "SELECT host, role, sum(CASE action WHEN 'acquire' THEN weight WHEN 'given_back' THEN -weight ELSE 0 END), sum(action = 'block'), sum(action = 'head_skip')
             FROM rate_events WHERE run_id = ?1 OR ?1 IS NULL GROUP BY host, role",
            |row| {
                let host = at(&mut hosts, key(row)?);
                (host.acquired, host.blocked, host.head_skipped) = (whole(row, 2)?, whole(row, 3)?, whole(row, 4)?);
                Ok(())
            },
        )?;
        let spreads: [(&str, Field); 3] = [
            ("rate_delay_ms", |host| &mut host.delay),
            ("rate_concurrency_wait_ms", |host| {
                &mut host.concurrency_wait
            }),
            ("elapsed_ms", |host| &mut host.latency),
        ];
        for (column, field) in spreads {
            let mut values: Vec<f64> = Vec::new();
            let mut current: Option<Key> = None;
            let sql = format!(
                "SELECT host, role, {column} FROM http_events WHERE (run_id = ?1 OR ?1 IS NULL) AND sent = 1 ORDER BY host, role, {column}"
            );
            self.each(&sql, |row| {
                let this = key(row)?;
                if current.as_ref() != Some(&this)
                    && let Some(done) = current.replace(this)
                {
                    *field(at(&mut hosts, done)) = Spread::of(&values);
                    values.clear();
                }
                values.push(row.get(2)?);
                Ok(())
            })?;
            if let Some(done) = current {
                *field(at(&mut hosts, done)) = Spread::of(&values);
            }
        }
        self.each(
            "SELECT host, role, stopped, count(*) FROM request_ends WHERE (run_id = ?1 OR ?1 IS NULL) AND stopped IS NOT NULL GROUP BY host, role, stopped",
            |row| {
                let (why, count): (String, _) = (row.get(2)?, whole(row, 3)?);
                at(&mut hosts, key(row)?).stopped.insert(why, count);
                Ok(())
            },
        )?;
        self.each("SELECT host, role, new FROM aimd_events WHERE run_id = ?1 OR ?1 IS NULL ORDER BY ts, rowid", |row| {
            at(&mut hosts, key(row)?).multiplier = Some(row.get(2)?);
            Ok(())
        })?;
        Ok(hosts.into_values().collect())
    }
}
