//! The figures of each breaker.

use std::collections::{BTreeMap, HashMap};

use super::load::{Key, Reader, SummaryError, key, per_hour, whole};
use super::{BreakerSummary, Spread, share};

fn at(breakers: &mut BTreeMap<Key, BreakerSummary>, key: Key) -> &mut BreakerSummary {
    let (scope, name) = key.clone();
    breakers.entry(key).or_insert_with(|| BreakerSummary {
        scope,
        key: name,
        ..BreakerSummary::default()
    })
}

impl Reader<'_> {
    pub(super) fn breakers(&self, duration_s: f64) -> Result<Vec<BreakerSummary>, SummaryError> {
        let mut breakers: BTreeMap<Key, BreakerSummary> = BTreeMap::new();
        let mut owner: HashMap<String, Key> = HashMap::new();
        let mut open_since: HashMap<Key, (f64, f64)> = HashMap::new();
        let mut lengths: HashMap<Key, Vec<f64>> = HashMap::new();
        let resets = self.resets()?;
        self.each(
            "SELECT scope, key, host, to_state, ts, reset_timeout_s, reason FROM breaker_transitions WHERE run_id = ?1 OR ?1 IS NULL ORDER BY ts, rowid",
            |row| {
                let key = key(row)?;
                let (host, to, ts, reset, reason): (String, String, f64, Option<f64>, Option<String>) =
                    (row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?);
                let breaker = at(&mut breakers, key.clone());
                if let Some((since, until)) = open_since.remove(&key) {
                    breaker.open_s += ts.min(until) - since;
                }
                if to == "open" {
                    breaker.opens += 1;
                    let reason = reason.unwrap_or_else(|| "unknown".to_owned());
                    if reason != "retry-after" && !reason.starts_with("cli-open") {
                        lengths.entry(key.clone()).or_default().push(reset.unwrap_or(0.0));
                    }
                    *breaker.reasons.entry(reason).or_default() += 1;
                    open_since.insert(key.clone(), (ts, ts + reset.unwrap_or(0.0)));
                }
                if matches!(key.0.as_str(), "host" | "site") {
                    owner.insert(host, key);
                }
                Ok(())
            },
        )?;
        let now = self.span()?.1;
        for (key, (since, until)) in open_since {
            at(&mut breakers, key).open_s += (now.min(until) - since).max(0.0);
        }
        let of = |host: &str| {
            owner
                .get(host)
                .cloned()
                .unwrap_or_else(|| ("host".to_owned(), host.to_owned()))
        };
        self.each(
            "SELECT host, count(*), sum(breaker_recorded = 'success') FROM http_events
             WHERE (run_id = ?1 OR ?1 IS NULL) AND sent = 1 AND breaker_host_state = 'half_open' GROUP BY host",
            |row| {
                let breaker = at(&mut breakers, of(&row.get::<_, String>(0)?));
                breaker.probes += whole(row, 1)?;
                breaker.probe_successes += whole(row, 2)?;
                Ok(())
            },
        )?;
        self.each(
            "SELECT d.host, d.error, d.resolver, count(*), sum(min(coalesce(d.breaker_host_cooldown_ms, e.expected), coalesce(e.expected, d.breaker_host_cooldown_ms))) / 1000.0
             FROM http_events d LEFT JOIN (SELECT host, avg(elapsed_ms) AS expected FROM http_events
                 WHERE (run_id = ?1 OR ?1 IS NULL) AND sent = 1 GROUP BY host) e ON e.host = d.host
             WHERE (d.run_id = ?1 OR ?1 IS NULL) AND d.sent = 0 GROUP BY d.host, d.error, d.resolver",
            |row| {
                let (host, error, resolver): (String, String, Option<String>) = (row.get(0)?, row.get(1)?, row.get(2)?);
                let key = match resolver {
                    Some(name) if error == "resolver_breaker_open" => ("resolver".to_owned(), format!("resolver:{name}")),
                    _ if error == "network_breaker_open" => ("network".to_owned(), format!("network:{host}")),
                    _ => of(&host),
                };
                let breaker = at(&mut breakers, key);
                breaker.requests_avoided += whole(row, 3)?;
                breaker.time_saved_s += row.get::<_, Option<f64>>(4)?.unwrap_or(0.0);
                Ok(())
            },
        )?;
        self.each("SELECT host, retry_after_s FROM http_events WHERE (run_id = ?1 OR ?1 IS NULL) AND retry_after_s IS NOT NULL", |row| {
            let (host, asked): (String, f64) = (row.get(0)?, row.get(1)?);
            if resets.get(&host).is_some_and(|reset| asked > *reset) {
                at(&mut breakers, of(&host)).retry_after_over_reset += 1;
            }
            Ok(())
        })?;
        let host_of: HashMap<&Key, &String> = owner.iter().map(|(host, key)| (key, host)).collect();
        for (key, breaker) in &mut breakers {
            breaker.opens_per_hour = per_hour(breaker.opens, duration_s);
            breaker.success_after_open = share(breaker.probe_successes, breaker.probes);
            let host = host_of.get(key).map_or(&key.1, |host| *host);
            if let (Some(lengths), Some(reset)) = (
                lengths.get_mut(key),
                resets.get(host).filter(|reset| **reset > 0.0),
            ) {
                lengths.sort_by(f64::total_cmp);
                breaker.block_p95_over_reset = Some(Spread::of(lengths).p95_ms / reset);
            }
        }
        Ok(breakers.into_values().collect())
    }

    fn resets(&self) -> Result<HashMap<String, f64>, SummaryError> {
        let mut resets = HashMap::new();
        self.each(
            "SELECT DISTINCT host, reset_timeout_s FROM budgets WHERE run_id = ?1 OR ?1 IS NULL",
            |row| {
                resets.insert(row.get(0)?, row.get(1)?);
                Ok(())
            },
        )?;
        Ok(resets)
    }
}
