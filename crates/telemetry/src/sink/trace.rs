//! Emits records as `tracing` events, for programs that embed the hub.

use tracing::{debug, info, warn};

use super::jsonl::millis;
use super::{Sink, WriteFailure};
use crate::record::{Record, TimedRecord};

/// A [`Sink`] that emits records as `tracing` events.
#[derive(Debug, Default)]
pub struct TraceSink;

impl Sink for TraceSink {
    fn name(&self) -> &'static str {
        "tracing"
    }

    fn write(&mut self, batch: &[TimedRecord], _: usize, _: u64) -> Result<(), WriteFailure> {
        batch.iter().for_each(emit);
        Ok(())
    }

    fn close(&mut self, _: u64) -> Result<(), WriteFailure> {
        Ok(())
    }
}

fn emit(TimedRecord { at, record }: &TimedRecord) {
    match record {
        Record::Http(http) => debug!(
            target: "docstokg::http",
            %at, request = http.context.request,
            host = %http.context.host,
            role = %http.context.role,
            status = http.status,
            error = http.error,
            rate_delay_ms = millis(http.rate_delay),
            elapsed_ms = millis(http.elapsed),
            url = &*http.url,
            "http"
        ),
        Record::Rate(rate) => debug!(
            target: "docstokg::rate",
            %at, host = %rate.context.host,
            role = %rate.context.role,
            outcome = rate.action.outcome(),
            key = &*rate.budget.key,
            blocked_ms = millis(rate.delay),
            "ratelimit.acquire"
        ),
        Record::Transition(change) => info!(
            target: "docstokg::breaker",
            %at, scope = change.scope,
            key = &*change.key,
            from_state = change.from.as_str(),
            to_state = change.to.as_str(),
            reason = change.reason.as_deref(),
            "breaker_state_change"
        ),
        Record::Cooldown(cooldown) => info!(
            target: "docstokg::rate",
            %at, host = %cooldown.context.host,
            seconds = cooldown.length.as_secs(),
            "ratelimit.cooldown"
        ),
        Record::Adjusted(change) => info!(
            target: "docstokg::rate",
            %at, host = %change.context.host,
            role = %change.context.role,
            old = change.old,
            new = change.new,
            reason = change.reason,
            "aimd_adjust"
        ),
        Record::Cache(cache) => debug!(
            target: "docstokg::cache",
            %at, request = cache.context.request,
            host = %cache.context.host,
            action = cache.action,
            url = &*cache.url,
            "cache"
        ),
        Record::End(end) if end.error.is_some() => warn!(
            target: "docstokg::http",
            %at, request = end.context.request,
            host = %end.context.host,
            error = end.error,
            url = &*end.url,
            "request_end"
        ),
        Record::Call(_) | Record::End(_) | Record::Budget(_) | Record::Robots(_) => {}
    }
}
