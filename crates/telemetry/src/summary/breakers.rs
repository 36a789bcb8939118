//! Computes the figures of each breaker from its recorded changes of state.

use std::collections::{BTreeMap, HashMap};

use super::load::{GroupKey, RunReader, SummaryError, integer, key, per_hour};
use super::{BreakerSummary, Distribution, share_of_whole, shares};
use crate::record::EARLY_PROBE_FAILED;
use crate::sink::sqlite::BREAKER_CHANGES;

/// Collects a [`BreakerSummary`] for each breaker, while the tables are read one after another.
#[derive(Default)]
struct BreakerCollector {
    found: BTreeMap<GroupKey, BreakerSummary>,
    /// The key of the breaker by host, for hosts that share a breaker with others.
    of_host: HashMap<String, GroupKey>,
    /// The start of each open that has not ended yet, and the time at which it ends at the latest.
    open: HashMap<GroupKey, (f64, f64)>,
    /// The lengths of inferred opens by breaker, in seconds. An open is inferred if neither a
    /// server nor an operator declared its length.
    lengths: HashMap<GroupKey, Vec<f64>>,
    /// The failed [`EarlyProbes`] by breaker.
    early: HashMap<GroupKey, EarlyProbes>,
}

/// The end of an outage, as far as the run observed it: by a successful probe, or unknown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OutageEnd {
    BySuccess,
    Lasting,
}

/// The run that caused an open, and therefore counts it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenedBy {
    /// The runs that are summarised.
    Counted,
    /// Another run. The summarised runs only observed the open.
    Another,
}

/// The failed early probes of a breaker, and the outages in which they occurred.
#[derive(Clone, Copy, Default)]
struct EarlyProbes {
    failed: u64,
    /// True if an early probe has failed in the current outage.
    in_outage: bool,
    /// Number of outages with a failed early probe that did not end by a success.
    lasting: u64,
}

impl EarlyProbes {
    fn end_outage(&mut self, ended: OutageEnd) {
        self.lasting += u64::from(self.in_outage && ended == OutageEnd::Lasting);
        self.in_outage = false;
    }
}

impl BreakerCollector {
    fn at(&mut self, key: GroupKey) -> &mut BreakerSummary {
        let (scope, name) = key.clone();
        self.found.entry(key).or_insert_with(|| BreakerSummary {
            scope,
            key: name,
            ..BreakerSummary::default()
        })
    }

    fn key_of(&self, host: &str) -> GroupKey {
        self.of_host
            .get(host)
            .cloned()
            .unwrap_or_else(|| ("host".to_owned(), host.to_owned()))
    }

    /// Ends the current open of a breaker, if there is one.
    fn end_open(&mut self, key: &GroupKey, ts: f64) {
        if let Some((since, until)) = self.open.remove(key) {
            self.at(key.clone()).open_s += ts.min(until) - since;
        }
    }

    /// Counts a change of state as a failed early probe, or as the end of an outage with such
    /// probes.
    fn count_early_probe(&mut self, key: &GroupKey, to: &str, reason: Option<&str>) {
        let early = self.early.entry(key.clone()).or_default();
        match to {
            "open" if reason == Some(EARLY_PROBE_FAILED) => {
                early.failed += 1;
                early.in_outage = true;
            }
            "open" => early.end_outage(OutageEnd::Lasting),
            "closed" => early.end_outage(OutageEnd::BySuccess),
            _ => {}
        }
    }

    /// Starts an open of a breaker. With [`OpenedBy::Another`], only its time counts, because
    /// another run caused it.
    fn start_open(
        &mut self,
        key: &GroupKey,
        (ts, reset): (f64, f64),
        reason: Option<String>,
        by: OpenedBy,
    ) {
        self.open.insert(key.clone(), (ts, ts + reset));
        if by == OpenedBy::Another {
            return;
        }
        let reason = reason.unwrap_or_else(|| "unknown".to_owned());
        // The length of these opens is not inferred: a server or an operator declared it.
        if reason != "retry-after" && !reason.starts_with("cli-open") {
            self.lengths.entry(key.clone()).or_default().push(reset);
        }
        if reason == EARLY_PROBE_FAILED {
            return;
        }
        let breaker = self.at(key.clone());
        breaker.opens += 1;
        *breaker.reasons.entry(reason).or_default() += 1;
    }
}

impl RunReader<'_> {
    pub(super) fn breakers(&self, duration_s: f64) -> Result<Vec<BreakerSummary>, SummaryError> {
        let mut breakers = BreakerCollector::default();
        let resets = self.resets()?;
        self.read_transitions(&mut breakers)?;
        self.read_probes(&mut breakers)?;
        self.read_denials(&mut breakers)?;
        self.read_retry_after(&mut breakers, &resets)?;
        let BreakerCollector {
            mut found,
            of_host,
            mut lengths,
            mut early,
            ..
        } = breakers;
        let host_of: HashMap<&GroupKey, &String> =
            of_host.iter().map(|(host, key)| (key, host)).collect();
        for (key, breaker) in &mut found {
            breaker.opens_per_hour = per_hour(breaker.opens, duration_s);
            breaker.reason_shares = shares(&breaker.reasons);
            let mut early = early.remove(key).unwrap_or_default();
            early.end_outage(OutageEnd::Lasting);
            breaker.probed_opens = breaker.probes.saturating_sub(early.failed) + early.lasting;
            breaker.success_after_open =
                share_of_whole(breaker.probe_successes, breaker.probed_opens);
            let host = host_of.get(key).map_or(&key.1, |host| *host);
            let reset = resets.get(host).filter(|reset| **reset > 0.0);
            if let (Some(lengths), Some(reset)) = (lengths.get_mut(key), reset) {
                lengths.sort_by(f64::total_cmp);
                breaker.block_p95_over_reset = Some(Distribution::of(lengths).p95_ms / reset);
            }
        }
        Ok(found.into_values().collect())
    }

    /// Reads the number and the lengths of opens.
    fn read_transitions(&self, breakers: &mut BreakerCollector) -> Result<(), SummaryError> {
        self.each(
            &format!(
                "SELECT scope, key, host, to_state, ts, reset_timeout_s, reason, elsewhere,
                        elsewhere = 1 AND to_state = 'open'
                            AND rowid NOT IN (SELECT id FROM ({BREAKER_CHANGES}))
                 FROM breaker_transitions WHERE run_id = ?1 OR ?1 IS NULL ORDER BY ts, rowid"
            ),
            |row| {
                let key = key(row)?;
                let (host, to, ts): (String, String, f64) = (row.get(2)?, row.get(3)?, row.get(4)?);
                let reset: Option<f64> = row.get(5)?;
                breakers.at(key.clone());
                breakers.end_open(&key, ts);
                let reason: Option<String> = row.get(6)?;
                if !row.get::<_, bool>(7)? {
                    breakers.count_early_probe(&key, &to, reason.as_deref());
                }
                if to == "open" {
                    let by = if row.get(8)? {
                        OpenedBy::Another
                    } else {
                        OpenedBy::Counted
                    };
                    breakers.start_open(&key, (ts, reset.unwrap_or(0.0)), reason, by);
                }
                if matches!(key.0.as_str(), "host" | "site") {
                    breakers.of_host.insert(host, key);
                }
                Ok(())
            },
        )?;
        let now = self.span()?.1;
        for (key, (since, until)) in std::mem::take(&mut breakers.open) {
            breakers.at(key).open_s += (now.min(until) - since).max(0.0);
        }
        Ok(())
    }

    fn read_probes(&self, breakers: &mut BreakerCollector) -> Result<(), SummaryError> {
        self.each(
            "SELECT host, count(*), sum(breaker_recorded = 'success') FROM http_events
             WHERE (run_id = ?1 OR ?1 IS NULL) AND sent = 1 AND breaker_host_state = 'half_open'
             GROUP BY host",
            |row| {
                let key = breakers.key_of(&row.get::<_, String>(0)?);
                let breaker = breakers.at(key);
                breaker.probes += integer(row, 1)?;
                breaker.probe_successes += integer(row, 2)?;
                Ok(())
            },
        )
    }

    /// Reads the requests that breakers denied. The time that each saved is estimated as the
    /// remaining cooldown or the host's mean latency, whichever is smaller.
    fn read_denials(&self, breakers: &mut BreakerCollector) -> Result<(), SummaryError> {
        self.each(
            "SELECT d.host, d.error, d.resolver, count(*),
                    sum(min(coalesce(d.breaker_host_cooldown_ms, e.expected),
                            coalesce(e.expected, d.breaker_host_cooldown_ms))) / 1000.0
             FROM http_events d
             LEFT JOIN (SELECT host, avg(elapsed_ms) AS expected FROM http_events
                        WHERE (run_id = ?1 OR ?1 IS NULL) AND sent = 1 GROUP BY host) e
             ON e.host = d.host
             WHERE (d.run_id = ?1 OR ?1 IS NULL) AND d.sent = 0
             GROUP BY d.host, d.error, d.resolver",
            |row| {
                let (host, error): (String, String) = (row.get(0)?, row.get(1)?);
                let resolver: Option<String> = row.get(2)?;
                let key = match (error.as_str(), resolver) {
                    ("resolver_breaker_open", Some(name)) => {
                        ("resolver".to_owned(), format!("resolver:{name}"))
                    }
                    ("network_breaker_open", _) => {
                        ("network".to_owned(), format!("network:{host}"))
                    }
                    _ => breakers.key_of(&host),
                };
                let breaker = breakers.at(key);
                breaker.requests_avoided += integer(row, 3)?;
                breaker.time_saved_s += row.get::<_, Option<f64>>(4)?.unwrap_or(0.0);
                Ok(())
            },
        )
    }

    fn read_retry_after(
        &self,
        breakers: &mut BreakerCollector,
        resets: &HashMap<String, f64>,
    ) -> Result<(), SummaryError> {
        self.each(
            "SELECT host, retry_after_s FROM http_events
             WHERE (run_id = ?1 OR ?1 IS NULL) AND retry_after_s IS NOT NULL",
            |row| {
                let (host, asked): (String, f64) = (row.get(0)?, row.get(1)?);
                if resets.get(&host).is_some_and(|reset| asked > *reset) {
                    let key = breakers.key_of(&host);
                    breakers.at(key).retry_after_over_reset += 1;
                }
                Ok(())
            },
        )
    }

    /// Reads the default time for which each host's breaker stays open, in seconds.
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
