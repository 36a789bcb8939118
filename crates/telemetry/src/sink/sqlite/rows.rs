//! Inserts the row of each record.

use docstokg_hub::policy::breaker::BreakerState;
use docstokg_hub::policy::retry::StopReason;
use rusqlite::{Params, Transaction, params};

use super::integer;
use crate::record::{
    AdjustRecord, BudgetRecord, CacheRecord, EndRecord, HttpRecord, RateRecord, Record,
    RobotsRecord, TimedRecord, TransitionRecord,
};
use crate::run::hash_prefix;
use crate::sink::jsonl::millis;

/// Inserts rows of one run into the tables of `schema.sql`.
pub(super) struct Rows<'a> {
    pub(super) transaction: &'a Transaction<'a>,
    pub(super) run: &'a str,
}

impl Rows<'_> {
    /// Inserts the row of a [`TimedRecord`]. Some records get no row, because the row of their
    /// attempt contains the same facts.
    pub(super) fn insert(&self, stamped: &TimedRecord) -> rusqlite::Result<()> {
        let ts = stamped.at.as_secs_f64();
        match &stamped.record {
            Record::Http(http) => self.attempt(ts, http),
            Record::Rate(rate) => self.rate(ts, rate),
            Record::Transition(change) => self.transition(ts, change),
            Record::Adjusted(change) => self.adjustment(ts, change),
            Record::Cache(cache) => self.cache(ts, cache),
            Record::End(end) => self.end(ts, end),
            Record::Budget(budget) => self.budget(budget),
            Record::Robots(robots) => self.robots(ts, robots),
            Record::Cooldown(_) | Record::Call(_) => Ok(()),
        }
    }

    fn execute(&self, sql: &str, values: impl Params) -> rusqlite::Result<()> {
        self.transaction
            .prepare_cached(sql)?
            .execute(values)
            .map(|_| ())
    }

    fn cache(&self, ts: f64, cache: &CacheRecord) -> rusqlite::Result<()> {
        self.execute(
            "INSERT INTO cache_events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                self.run,
                ts,
                integer(cache.context.request),
                cache.context.host.as_str(),
                cache.context.role.as_str(),
                cache.action,
                cache.status,
                cache.age.map(|age| age.as_secs_f64()),
                cache.reason
            ],
        )
    }

    fn rate(&self, ts: f64, rate: &RateRecord) -> rusqlite::Result<()> {
        self.execute(
            "INSERT INTO rate_events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                self.run,
                ts,
                rate.context.host.as_str(),
                rate.context.role.as_str(),
                rate.context.kind.as_deref(),
                rate.action.as_str(),
                rate.weight,
                rate.mode,
                millis(rate.delay),
                rate.max_delay.map(millis),
                rate.estimate.map(millis)
            ],
        )?;
        if rate.context.service.is_none() {
            return Ok(());
        }
        self.execute(
            "INSERT INTO service_waits VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                self.run,
                ts,
                &*rate.budget.key,
                rate.context.host.as_str(),
                rate.context.role.as_str(),
                rate.action.outcome(),
                millis(rate.delay)
            ],
        )
    }

    fn robots(&self, ts: f64, robots: &RobotsRecord) -> rusqlite::Result<()> {
        self.execute(
            "INSERT INTO robots_events VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                self.run,
                ts,
                robots.host.as_str(),
                robots.state.as_str(),
                robots.crawl_delay.map(|delay| delay.as_secs_f64())
            ],
        )
    }

    fn transition(&self, ts: f64, change: &TransitionRecord) -> rusqlite::Result<()> {
        self.execute(
            "INSERT INTO breaker_transitions
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                self.run,
                ts,
                change.scope,
                &*change.key,
                change.host.as_str(),
                change.from.as_str(),
                change.to.as_str(),
                change.fail_count,
                change.reset.map(|reset| reset.as_secs_f64()),
                change.reason,
                change.elsewhere
            ],
        )
    }

    fn adjustment(&self, ts: f64, change: &AdjustRecord) -> rusqlite::Result<()> {
        self.execute(
            "INSERT INTO aimd_events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                self.run,
                ts,
                change.context.host.as_str(),
                change.context.role.as_str(),
                change.old,
                change.new,
                change.reason
            ],
        )
    }

    fn end(&self, ts: f64, end: &EndRecord) -> rusqlite::Result<()> {
        let good = end.error.is_none() && end.status.is_some_and(|status| status < 400);
        self.execute(
            "INSERT INTO request_ends
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            params![
                self.run,
                ts,
                integer(end.context.request),
                end.context.host.as_str(),
                end.context.role.as_str(),
                end.context.resolver.as_deref(),
                end.attempts,
                end.status,
                end.stopped.map(StopReason::as_str),
                end.error,
                millis(end.elapsed),
                (!good).then_some(&*end.url)
            ],
        )
    }

    fn budget(&self, budget: &BudgetRecord) -> rusqlite::Result<()> {
        self.execute(
            "INSERT INTO budgets VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                self.run,
                budget.host.as_str(),
                budget.role.as_str(),
                budget.kind.as_deref(),
                budget.budget,
                budget.rates,
                budget.reset.as_secs_f64()
            ],
        )
    }

    fn attempt(&self, ts: f64, http: &HttpRecord) -> rusqlite::Result<()> {
        self.execute(
            "INSERT INTO http_events (
                 run_id, ts, request, host, role, resolver, kind, method, status, url_hash, url,
                 sent, retry_count, retry_after_s, rate_delay_ms, rate_concurrency_wait_ms,
                 breaker_wait_ms, breaker_host_state, breaker_host_cooldown_ms, breaker_recorded,
                 header_ms, body_ms, elapsed_ms, bytes, wasted, error, breaker_resolver_state)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,
                 ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27)",
            params![
                self.run,
                ts,
                integer(http.context.request),
                http.context.host.as_str(),
                http.context.role.as_str(),
                http.context.resolver.as_deref(),
                http.context.kind.as_deref(),
                http.method.as_str(),
                http.status,
                hash_prefix(&http.url, 16),
                http.wasted.then_some(&*http.url),
                http.sent,
                http.attempt.saturating_sub(1),
                http.retry_after.map(|asked| asked.as_secs_f64()),
                millis(http.rate_delay),
                millis(http.slot_wait),
                millis(http.breaker_wait),
                http.host_state.as_str(),
                http.cooldown.map(millis),
                http.breaker_recorded,
                http.header_time.map(millis),
                http.body_time.map(millis),
                millis(http.elapsed),
                integer(http.bytes),
                http.wasted,
                http.error,
                http.resolver_state.map(BreakerState::as_str)
            ],
        )
    }
}
