//! The limits that a host declares in its rate headers, in words and as JSON.

use std::time::Duration;

use docstokg_hub::json::whole_millis;
use docstokg_hub::policy::rate_headers::{Quota, RateHeaderReading, Unit};
use serde_json::{Value, json};

/// Describes the rate headers of one response.
pub(crate) fn sentence(reading: &RateHeaderReading) -> String {
    format!("the host states {}", text(reading))
}

/// Describes a [`RateHeaderReading`]: limits, remaining requests, and the time of the reset.
pub(crate) fn text(reading: &RateHeaderReading) -> String {
    let mut parts: Vec<String> = reading.quotas.iter().map(quota_text).collect();
    if let Some(most) = reading.concurrency {
        parts.push(format!("at most {most} at a time"));
    }
    match reading.malformed {
        0 => {}
        1 => parts.push("1 field that cannot be read".to_owned()),
        fields => parts.push(format!("{fields} fields that cannot be read")),
    }
    if parts.is_empty() {
        return "nothing that limits requests".to_owned();
    }
    parts.join(", ")
}

fn quota_text(quota: &Quota) -> String {
    let mut text = match (quota.limit, quota.window) {
        (Some(limit), Some(window)) => {
            format!("{limit} {} per {}", unit(quota.unit), seconds(window))
        }
        (Some(limit), None) => format!("{limit} {}", unit(quota.unit)),
        (None, _) => format!("a quota of {}", unit(quota.unit)),
    };
    if let Some(partition) = &quota.partition {
        text += &format!(" for {partition}");
    }
    if let Some(remaining) = quota.remaining {
        text += &format!(", {remaining} left");
    }
    if let Some(resets_in) = quota.resets_in {
        text += &format!(", reset in {}", seconds(resets_in));
    }
    text
}

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Requests => "requests",
        Unit::ContentBytes => "content-bytes",
        Unit::ConcurrentRequests => "concurrent-requests",
        Unit::Credits => "credits",
        Unit::Other => "units of its own",
    }
}

fn seconds(length: Duration) -> String {
    if length.subsec_millis() == 0 || length >= Duration::from_secs(10) {
        format!("{:.0} s", length.as_secs_f64())
    } else {
        format!("{:.3} s", length.as_secs_f64())
    }
}

/// Returns the declared limits of a quota scope as JSON.
pub(crate) fn json((lane, reading): &(String, RateHeaderReading)) -> Value {
    let quotas = reading.quotas.iter().map(|quota| {
        json!({
            "unit": unit(quota.unit),
            "limit": quota.limit,
            "window_ms": quota.window.map(whole_millis),
            "remaining": quota.remaining,
            "resets_in_ms": quota.resets_in.map(whole_millis),
            "partition": quota.partition,
        })
    });
    json!({
        "budget": lane,
        "quotas": quotas.collect::<Vec<_>>(),
        "max_concurrent": reading.concurrency,
        "malformed": reading.malformed,
    })
}
