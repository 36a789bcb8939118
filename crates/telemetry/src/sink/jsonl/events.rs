//! Converts a record to events, under the names that operators search for.

use docstokg_hub::policy::breaker::BreakerState;
use docstokg_hub::policy::retry::StopReason;
use serde_json::{Value, json};

use super::millis;
use crate::record::{
    CacheRecord, CallRecord, EndRecord, HttpRecord, RateRecord, Record, RequestContext,
    TransitionRecord,
};

/// Returns the events of a [`Record`], each with its name and fields.
pub(super) fn events(record: &Record) -> Vec<(&'static str, Value)> {
    match record {
        Record::Call(call) => vec![("breaker_before_call", breaker_check(call))],
        Record::Http(http) => {
            let mut events = vec![("http", attempt(http))];
            match http.breaker_recorded {
                "success" => events.push(("breaker_success", context_fields(&http.context))),
                "failure" => {
                    let fields = json!({ "error": error_class(http) });
                    events.push(("breaker_failure", with_context(&http.context, fields)));
                }
                _ => {}
            }
            events
        }
        Record::Rate(rate) => vec![("ratelimit.acquire", acquire(rate))],
        Record::Transition(change) => vec![("breaker_state_change", transition(change))],
        Record::Cooldown(cooldown) => {
            let context = &cooldown.context;
            let fields = json!({
                "key": format!("{}:{}", context.host, context.role),
                "seconds": cooldown.length.as_secs_f64(),
            });
            vec![("ratelimit.cooldown", with_context(context, fields))]
        }
        Record::Adjusted(change) => {
            let fields = json!({ "old": change.old, "new": change.new, "reason": change.reason });
            vec![("aimd_adjust", with_context(&change.context, fields))]
        }
        Record::Cache(cache) => vec![("cache", cache_use(cache))],
        Record::End(end) => vec![("request_end", request_end(end))],
        Record::Budget(budget) => vec![(
            "budget",
            json!({
                "host": budget.host.as_str(),
                "role": budget.role.as_str(),
                "kind": budget.kind.as_deref(),
                "budget": budget.budget,
                "rates": budget.rates,
            }),
        )],
        Record::Robots(robots) => vec![(
            "robots",
            json!({
                "host": robots.host.as_str(),
                "state": robots.state.as_str(),
                "crawl_delay_s": robots.crawl_delay.map(|delay| delay.as_secs_f64()),
            }),
        )],
    }
}

fn context_fields(context: &RequestContext) -> Value {
    json!({
        "request": context.request,
        "host": context.host.as_str(),
        "role": context.role.as_str(),
        "resolver": context.resolver.as_deref(),
    })
}

/// Returns the fields of the [`RequestContext`], followed by `fields`.
fn with_context(context: &RequestContext, fields: Value) -> Value {
    let mut all = context_fields(context);
    if let (Value::Object(all), Value::Object(fields)) = (&mut all, fields) {
        all.extend(fields);
    }
    all
}

fn breaker_check(call: &CallRecord) -> Value {
    let fields = json!({
        "breaker_host_state": call.host_state.as_str(),
        "breaker_host_cooldown_ms": call.host_cooldown.map(millis),
        "breaker_resolver_state": call.resolver_state.map(BreakerState::as_str),
    });
    with_context(&call.context, fields)
}

fn transition(change: &TransitionRecord) -> Value {
    json!({
        "scope": change.scope,
        "key": &*change.key,
        "from_state": change.from.as_str(),
        "to_state": change.to.as_str(),
        "fail_count": change.fail_count,
        "reset_timeout_s": change.reset.map(|reset| reset.as_secs_f64()),
        "reason": change.reason,
        "elsewhere": change.elsewhere,
    })
}

fn request_end(end: &EndRecord) -> Value {
    let fields = json!({
        "url": &*end.url,
        "attempts": end.attempts,
        "status": end.status,
        "stopped": end.stopped.map(StopReason::as_str),
        "error": end.error,
        "elapsed_ms": millis(end.elapsed),
    });
    with_context(&end.context, fields)
}

fn cache_use(cache: &CacheRecord) -> Value {
    let fields = json!({
        "url": &*cache.url,
        "action": cache.action,
        "status": cache.status,
        "age_s": cache.age.map(|age| age.as_secs_f64()),
        "reason": cache.reason,
    });
    with_context(&cache.context, fields)
}

fn error_class(http: &HttpRecord) -> String {
    match (http.error, http.status) {
        (Some(error), _) => error.to_owned(),
        (None, Some(status)) => format!("http_{status}"),
        (None, None) => String::new(),
    }
}

fn attempt(http: &HttpRecord) -> Value {
    let cooldown = http
        .cooldown
        .filter(|_| http.host_state != BreakerState::Closed);
    let fields = json!({
        "method": http.method.as_str(),
        "url": &*http.url,
        "sent": http.sent,
        "attempt": http.attempt,
        "status": http.status,
        "error": http.error,
        "retry_after_s": http.retry_after.map(|asked| asked.as_secs_f64()),
        "rate_delay_ms": millis(http.rate_delay),
        "rate_concurrency_wait_ms": millis(http.slot_wait),
        "breaker_wait_ms": millis(http.breaker_wait),
        "breaker_host_state": http.host_state.as_str(),
        "breaker_host_cooldown_ms": cooldown.map(millis),
        "breaker_resolver_state": http.resolver_state.map(BreakerState::as_str),
        "breaker_recorded": http.breaker_recorded,
        "header_ms": http.header_time.map(millis),
        "body_ms": http.body_time.map(millis),
        "elapsed_ms": millis(http.elapsed),
        "bytes": http.bytes,
    });
    with_context(&http.context, fields)
}

fn acquire(rate: &RateRecord) -> Value {
    let fields = json!({
        "key": &*rate.budget.key,
        "rates": &*rate.budget.rates,
        "weight": rate.weight,
        "mode": rate.mode,
        "action": rate.action.as_str(),
        "blocked_ms": millis(rate.delay),
        "estimated_ms": rate.estimate.map(millis),
        "outcome": rate.action.outcome(),
    });
    with_context(&rate.context, fields)
}
