//! The catalogue of metrics, with their names, types and help texts.

/// The description of a metric: its name, its type, and its help text.
pub(super) struct Description {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) help: &'static str,
}

macro_rules! metrics {
    ($($id:ident = $name:literal, $kind:literal, $help:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(super) enum Metric { $($id),* }
        /// Every metric with its [`Description`], in the order of the exported text.
        pub(super) const CATALOGUE: &[(Metric, Description)] =
            &[$((Metric::$id, Description { name: $name, kind: $kind, help: $help })),*];
    };
}

metrics! {
    RateDelay = "rate_delay_ms", "histogram",
        "Time that a request waited for the rate before it was sent, in milliseconds.";
    SlotWait = "rate_concurrency_wait_ms", "histogram",
        "Time that a request waited for a free slot, in milliseconds.";
    Acquired = "rate_acquired_total", "counter",
        "Tokens spent.";
    Blocked = "rate_blocked_total", "counter",
        "Requests refused because the wait would have exceeded max_delay_ms.";
    HeadSkipped = "rate_head_skipped_total", "counter",
        "HEAD requests that spent no token.";
    HostState = "breaker_host_state", "gauge",
        "State of a host's breaker: 0 closed, 1 half-open, 2 open.";
    HostCooldown = "breaker_host_cooldown_ms", "gauge",
        "Time until an open breaker lets a probe through, in milliseconds.";
    ResolverState = "breaker_resolver_state", "gauge",
        "State of a resolver's breaker: 0 closed, 1 half-open, 2 open.";
    NetworkState = "breaker_network_state", "gauge",
        "Local connectivity to a host: 0 reachable, 1 probing, 2 unreachable.";
    Recorded = "breaker_recorded_total", "counter",
        "Results that breakers recorded: success, failure or none.";
    Opens = "breaker_opens_total", "counter",
        "Opens of breakers, by reason.";
    OverReset = "breaker_retry_after_over_reset_total", "counter",
        "Answers whose Retry-After asked for more than the configured reset.";
    Denied = "breaker_denied_total", "counter",
        "Requests that an open breaker denied.";
    Cache = "cache_total", "counter",
        "What the cache did: hit, revalidated, stale or stored.";
    Adapted = "aimd_multiplier", "gauge",
        "Adaptive multiplier of a host and role.";
    Duration = "http_client_request_duration_seconds", "histogram",
        "Duration of an attempt, from sending to the end of its body.";
    HeaderTime = "http_client_response_header_duration_seconds", "histogram",
        "Time from sending to the headers of the answer.";
    BodyTime = "http_client_response_body_duration_seconds", "histogram",
        "Time from the headers to the end of the body.";
    BodySize = "http_client_response_body_size_bytes", "histogram",
        "Bytes of a body as received over the wire.";
    Wasted = "http_client_wasted_bytes_total", "counter",
        "Bytes of answers that were wasted: throttled, failed or incomplete.";
    Retries = "http_client_retries_total", "counter",
        "Attempts after the first.";
    Throttled = "http_client_throttled_total", "counter",
        "Answers 429 and 503, with or without Retry-After.";
    Requests = "http_client_requests_ended_total", "counter",
        "Requests that ended, by outcome, and whether that is a failure.";
    Active = "http_client_active_requests", "gauge",
        "Active requests, waiting ones included.";
    StoreUnavailable = "limits_store_unavailable", "gauge",
        "1 while the store of limits and breakers is unavailable and this process uses its share.";
    StoreOutages = "limits_store_outages_total", "counter",
        "How often the store of limits and breakers became unavailable.";
    Dropped = "telemetry_dropped_total", "counter",
        "Events that telemetry dropped because its queue was full.";
    Info = "docstokg_run_info", "gauge",
        "The run: its id and the fingerprint of its configuration.";
}
