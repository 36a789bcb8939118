//! Updates the metrics by each record.

use docstokg_hub::clock::Timestamp;
use docstokg_hub::policy::breaker::BreakerState;

use super::catalogue::Metric;
use super::render::labels;
use super::{BYTES_BUCKETS, MILLIS_BUCKETS, Metrics, SECONDS_BUCKETS, float};
use crate::record::{
    EndRecord, HttpRecord, RateAction, RateRecord, Record, TimedRecord, TransitionRecord,
};
use crate::sink::jsonl::millis;

impl Metrics {
    pub(super) fn take(&mut self, stamped: &TimedRecord) {
        match &stamped.record {
            Record::Http(http) if http.sent => self.count_attempt(http),
            Record::Http(http) => {
                let host = self.label(&http.context.host);
                let denied = labels(&[("host", &host), ("role", http.context.role.as_str())]);
                self.add(Metric::Denied, denied, 1.0);
            }
            Record::Rate(rate) => self.count_rate(rate),
            Record::Transition(change) => self.count_transition(stamped.at, change),
            Record::Adjusted(change) => {
                let host = self.label(&change.context.host);
                let labels = labels(&[("host", &host), ("role", change.context.role.as_str())]);
                self.set(Metric::Adapted, labels, change.new);
            }
            Record::Cache(cache) => {
                let host = self.label(&cache.context.host);
                let labels = labels(&[
                    ("host", &host),
                    ("role", cache.context.role.as_str()),
                    ("action", cache.action),
                ]);
                self.add(Metric::Cache, labels, 1.0);
            }
            Record::End(end) => self.count_end(end),
            Record::Call(_) | Record::Cooldown(_) | Record::Budget(_) | Record::Robots(_) => {}
        }
    }

    fn count_rate(&mut self, rate: &RateRecord) {
        let host = self.label(&rate.context.host);
        let both = labels(&[("host", &host), ("role", rate.context.role.as_str())]);
        match rate.action {
            RateAction::Acquire => self.add(Metric::Acquired, both, f64::from(rate.weight)),
            RateAction::Block => self.add(Metric::Blocked, both, 1.0),
            RateAction::HeadSkip => self.add(Metric::HeadSkipped, labels(&[("host", &host)]), 1.0),
            // A counter must never decrease, so returned tokens, which are rare, stay counted.
            RateAction::GivenBack => {}
        }
    }

    fn count_end(&mut self, end: &EndRecord) {
        let host = self.label(&end.context.host);
        let outcome = match (end.error, end.status) {
            (Some(error), _) => error.to_owned(),
            (None, Some(status)) if status < 400 => "ok".to_owned(),
            (None, Some(status)) => format!("http_{status}"),
            (None, None) => "none".to_owned(),
        };
        let labels = labels(&[
            ("host", &host),
            ("role", end.context.role.as_str()),
            ("outcome", &outcome),
            ("failed", if end.is_failure() { "yes" } else { "no" }),
        ]);
        self.add(Metric::Requests, labels, 1.0);
    }

    fn count_attempt(&mut self, http: &HttpRecord) {
        let host = self.label(&http.context.host);
        let both = labels(&[("host", &host), ("role", http.context.role.as_str())]);
        let (rate_delay, slot_wait) = (millis(http.rate_delay), millis(http.slot_wait));
        self.observe(Metric::RateDelay, MILLIS_BUCKETS, both.clone(), rate_delay);
        self.observe(Metric::SlotWait, MILLIS_BUCKETS, both.clone(), slot_wait);
        if http.attempt > 1 {
            self.add(Metric::Retries, both, 1.0);
        }
        self.observe_answer(http, &host);
        if let Some(429 | 503) = http.status {
            self.count_throttled(http, &host);
        }
        let reset = self.breakers.of(&http.context.host).policy.reset;
        if http.retry_after.is_some_and(|asked| asked > reset) {
            self.add(Metric::OverReset, labels(&[("host", &host)]), 1.0);
        }
        let recorded = labels(&[("host", &host), ("outcome", http.breaker_recorded)]);
        self.add(Metric::Recorded, recorded, 1.0);
    }

    /// Observes the durations and sizes of an [`HttpRecord`], under the labels that OpenTelemetry
    /// defines for HTTP metrics.
    fn observe_answer(&mut self, http: &HttpRecord, host: &str) {
        let status = http.status.map(|status| status.to_string());
        let mut pairs = vec![
            ("http_request_method", http.method.as_str()),
            ("server_address", host),
        ];
        pairs.extend(
            status
                .as_deref()
                .map(|status| ("http_response_status_code", status)),
        );
        pairs.extend(http.error.map(|error| ("error_type", error)));
        let elapsed = http.elapsed.as_secs_f64();
        self.observe(Metric::Duration, SECONDS_BUCKETS, labels(&pairs), elapsed);
        let server = labels(&[("server_address", host)]);
        if let Some(took) = http.header_time {
            let took = took.as_secs_f64();
            self.observe(Metric::HeaderTime, SECONDS_BUCKETS, server.clone(), took);
        }
        if let Some(took) = http.body_time {
            let took = took.as_secs_f64();
            self.observe(Metric::BodyTime, SECONDS_BUCKETS, server.clone(), took);
            self.observe(
                Metric::BodySize,
                BYTES_BUCKETS,
                server.clone(),
                float(http.bytes),
            );
        }
        if http.wasted && http.bytes > 0 {
            self.add(Metric::Wasted, server, float(http.bytes));
        }
    }

    fn count_throttled(&mut self, http: &HttpRecord, host: &str) {
        let status = http.status.unwrap_or_default().to_string();
        let retry_after = if http.retry_after.is_some() {
            "yes"
        } else {
            "no"
        };
        let labels = labels(&[
            ("host", host),
            ("status", &status),
            ("retry_after", retry_after),
        ]);
        self.add(Metric::Throttled, labels, 1.0);
    }

    fn count_transition(&mut self, at: Timestamp, change: &TransitionRecord) {
        let state = match change.to {
            BreakerState::Closed => 0.0,
            BreakerState::HalfOpen => 1.0,
            BreakerState::Open => 2.0,
        };
        let (key, role) = match change.scope {
            "host" => (self.label(&change.host), None),
            "role" => {
                let role = change.key.rsplit_once(':').map(|(_, role)| role);
                (self.label(&change.host), role)
            }
            _ => (name_in_scope(change).to_owned(), None),
        };
        let (metric, label) = match change.scope {
            "resolver" => (Metric::ResolverState, "resolver"),
            "network" => (Metric::NetworkState, "host"),
            _ => (Metric::HostState, "host"),
        };
        let of_role = role.map(|role| ("role", role));
        let of = |label| std::iter::once((label, key.as_str())).chain(of_role);
        let breaker = labels(&of(label).collect::<Vec<_>>());
        self.set(metric, breaker.clone(), state);
        if change.begins_open() {
            let reason = change
                .reason
                .as_deref()
                .map_or("none", |reason| reason.split(':').next().unwrap_or(reason));
            let by = if change.elsewhere {
                "elsewhere"
            } else {
                "this_run"
            };
            let opens = if change.scope == "network" {
                "network"
            } else {
                label
            };
            let counted: Vec<_> = of(opens).chain([("reason", reason), ("by", by)]).collect();
            let counted = labels(&counted);
            self.add(Metric::Opens, counted, 1.0);
        }
        if metric == Metric::HostState {
            let until = if change.to == BreakerState::Open {
                at + change.reset.unwrap_or_default()
            } else {
                at
            };
            self.open_until.insert(breaker, until);
        }
    }
}

/// Returns the key of a breaker without the prefix that names its scope.
fn name_in_scope(change: &TransitionRecord) -> &str {
    match change.key.split_once(':') {
        Some((scope, name)) if scope == change.scope => name,
        _ => &change.key,
    }
}
