//! Headers with a title each. Responses are received at noon of 2026-11-16, 1794830400.

/// What services send, as they document it or as it was observed.
pub(super) const SERVICES: &[(&str, &str)] = &[
    (
        "Crossref, polite pool, one work",
        "x-api-pool: polite-single
        x-rate-limit-limit: 10
        x-rate-limit-interval: 1s
        x-concurrency-limit: 3",
    ),
    (
        "Crossref, public pool, a list",
        "x-api-pool: public-array
        x-rate-limit-limit: 1
        x-rate-limit-interval: 1s
        x-concurrency-limit: 1",
    ),
    (
        "Crossref, a wider window",
        "X-Rate-Limit-Limit: 3000
        X-Rate-Limit-Interval: 60s",
    ),
    (
        "OpenAlex, a list with a free key",
        "X-RateLimit-Limit: 10000
        X-RateLimit-Remaining: 9990
        X-RateLimit-Credits-Used: 1
        X-RateLimit-Limit-USD: 1
        X-RateLimit-Remaining-USD: 0.999
        X-RateLimit-Cost-USD: 0.0001
        X-RateLimit-Reset: 43200",
    ),
    (
        "OpenAlex, a free request",
        "X-RateLimit-Limit: 1000
        X-RateLimit-Remaining: 1000
        X-RateLimit-Credits-Used: 0
        X-RateLimit-Reset: 43200",
    ),
    (
        "OpenAlex, budget spent",
        "X-RateLimit-Limit: 1000
        X-RateLimit-Remaining: 5
        X-RateLimit-Credits-Used: 0
        X-RateLimit-Credits-Required: 10
        X-RateLimit-Reset: 57539
        Retry-After: 57539",
    ),
    (
        "Zenodo, reset in the epoch",
        "X-RateLimit-Limit: 60
        X-RateLimit-Remaining: 59
        X-RateLimit-Reset: 1794830461",
    ),
    (
        "OntoPortal, refused",
        "RateLimit-Limit: 15
        RateLimit-Remaining: 0
        RateLimit-Reset: 1",
    ),
    (
        "GitHub",
        "x-ratelimit-limit: 60
        x-ratelimit-remaining: 56
        x-ratelimit-used: 4
        x-ratelimit-resource: core
        x-ratelimit-reset: 1794833640",
    ),
    (
        "GitHub, without a remainder",
        "x-ratelimit-limit: 30
        x-ratelimit-used: 12
        x-ratelimit-resource: search
        x-ratelimit-reset: 1794830436",
    ),
    (
        "GitLab, reset in the epoch",
        "RateLimit-Limit: 60
        RateLimit-Name: throttle_authenticated_web
        RateLimit-Observed: 67
        RateLimit-Remaining: 0
        RateLimit-Reset: 1794830430
        RateLimit-ResetTime: Mon, 16 Nov 2026 12:00:30 GMT",
    ),
    (
        "Docker Hub, windows of their own",
        "ratelimit-limit: 100;w=21600
        ratelimit-remaining: 76;w=21600
        docker-ratelimit-source: 192.0.2.1",
    ),
    (
        "Reddit, fractions",
        "x-ratelimit-used: 4
        x-ratelimit-remaining: 96.0
        x-ratelimit-reset: 480",
    ),
    (
        "Discord, both resets",
        "X-RateLimit-Limit: 5
        X-RateLimit-Remaining: 0
        X-RateLimit-Reset: 1794830500.123
        X-RateLimit-Reset-After: 1.25",
    ),
    (
        "milliseconds since 1970",
        "X-Rate-Limit-Limit: 100
        X-Rate-Limit-Remaining: 10
        X-Rate-Limit-Reset: 1794830410500",
    ),
    (
        "an HTTP date",
        "X-RateLimit-Limit: 100
        X-RateLimit-Remaining: 10
        X-RateLimit-Reset: Mon, 16 Nov 2026 12:02:00 GMT",
    ),
    (
        "express-rate-limit, old and new headers at once",
        "X-RateLimit-Limit: 100
        X-RateLimit-Remaining: 99
        X-RateLimit-Reset: 1794831300
        RateLimit-Policy: 100;w=900
        RateLimit-Limit: 100
        RateLimit-Remaining: 99
        RateLimit-Reset: 900",
    ),
];

/// The examples of draft-ietf-httpapi-ratelimit-headers in all its versions.
pub(super) const DRAFTS: &[(&str, &str)] = &[
    (
        "draft 10, one policy",
        r#"RateLimit-Policy: "default";q=100;w=10
        RateLimit: "default";r=50;t=30"#,
    ),
    (
        "draft 10, several policies, one of them short",
        r#"RateLimit-Policy: "hour";q=1000;w=3600, "day";q=5000;w=86400
        RateLimit: "day";r=100;t=36000"#,
    ),
    (
        "draft 10, several lines",
        r#"RateLimit-Policy: "permin";q=50;w=60
        RateLimit-Policy: "perhr";q=1000;w=3600
        RateLimit: "permin";r=0;t=48
        RateLimit: "perhr";r=800;t=1800"#,
    ),
    (
        "draft 10, units and partition keys",
        r#"RateLimit-Policy: "peruser";q=65535;qu="content-bytes";w=10;pk=:sdfjLJUOUH==:, "slots";q=4;qu="concurrent-requests", "gpu";q=9;qu="gpu-seconds";w=60
        RateLimit: "peruser";r=300000000;t=60;pk=:QXBwLTk5OQ==:, "slots";r=3"#,
    ),
    (
        "draft 10, the partition key in one field only",
        r#"RateLimit-Policy: "default";q=1000
        RateLimit: "default";r=999;pk=:dHJpYWwxMjEzMjM=:"#,
    ),
    (
        "draft 10, tokens and no remainder",
        "RateLimit-Policy: quota;q=100;w=1
        RateLimit: quota;t=1",
    ),
    (
        "draft 10, comments",
        r#"RateLimit-Policy: "sliding";q=100;w=60;burst=1000;comment="a, b; c"
        RateLimit: "sliding";r=50;t=44;acme=?1"#,
    ),
    (
        "draft 10, no policy",
        r#"RateLimit: "problemPolicy";r=0;t=10"#,
    ),
    (
        "draft 7",
        "RateLimit: limit=5000, remaining=100, reset=36000
        RateLimit-Policy: 1000;w=3600, 5000;w=86400",
    ),
    (
        "draft 7, a limit of its own",
        "RateLimit: limit=10, remaining=9, reset=50
        RateLimit-Policy: 100;w=60",
    ),
    ("draft 7, no remainder", "RateLimit: limit=10, reset=1"),
    (
        "draft 7, zero",
        "RateLimit: limit=0, remaining=0, reset=20
        RateLimit-Policy: 15;w=20",
    ),
    (
        "draft 6",
        r#"RateLimit-Limit: 100
        RateLimit-Remaining: 50
        RateLimit-Reset: 44
        RateLimit-Policy: 100;w=60;burst=1000;comment="sliding window", 5000;w=3600;burst=0"#,
    ),
    (
        "draft 6, one limit for two windows",
        "RateLimit-Limit: 10
        RateLimit-Remaining: 4
        RateLimit-Reset: 30
        RateLimit-Policy: 10;w=1, 10;w=60",
    ),
    (
        "draft 3, policies beside the limit",
        r#"RateLimit-Limit: 10, 10;w=1, 50;w=60, 1000;w=3600, 5000;w=86400;comment="a, day"
        RateLimit-Remaining: 3
        RateLimit-Reset: 1"#,
    ),
];

/// What is ignored, and what is capped.
pub(super) const MALFORMED: &[(&str, &str)] = &[
    (
        "a structured field is read as a whole or not at all",
        r#"RateLimit-Policy: "a";q=10;w=1
        RateLimit-Policy: "b";q=
        RateLimit: "a";r=5;t=1"#,
    ),
    (
        "members without what they need",
        r#"RateLimit-Policy: "a";w=1, "b";q=-1, "c";q=1.5, "d";q=5;w=0, "e";q=5;pk=7, 5.0, "ok";q=5;w=1
        RateLimit: "a";r=-1, "b";x=1, 7;r=1, "ok";r=1"#,
    ),
    ("empty", "RateLimit-Policy:\nRateLimit:\nX-RateLimit-Limit:"),
    (
        "not numbers",
        "X-RateLimit-Limit: unlimited
        X-RateLimit-Remaining: -1
        X-RateLimit-Reset: soon
        X-Rate-Limit-Interval: fortnight
        X-Concurrency-Limit: 3x",
    ),
    (
        "an interval that disagrees with itself",
        "x-rate-limit-limit: 5
        x-rate-limit-interval: 1s
        x-rate-limit-interval: 2s",
    ),
    (
        "an interval of zero",
        "x-rate-limit-limit: 5\nx-rate-limit-interval: 0s",
    ),
    ("no concurrency at all", "x-concurrency-limit: 0"),
    (
        "one malformed field does not spoil the others",
        "X-RateLimit-Limit: ten
        X-RateLimit-Remaining: 5
        X-RateLimit-Reset: 60",
    ),
    (
        "the same twice, from two proxies",
        "X-RateLimit-Limit: 60
        X-RateLimit-Limit: 60
        X-RateLimit-Remaining: 7, 7
        X-RateLimit-Reset: 30, 30",
    ),
    (
        "two quotas side by side",
        "X-RateLimit-Limit: 10, 1000
        X-RateLimit-Remaining: 0, 400
        X-RateLimit-Reset: 1, 1794831000",
    ),
    (
        "limits and windows beyond all bounds",
        r#"RateLimit-Policy: "a";q=999999999999999;w=1, "b";q=3000;w=2592000, "c";q=1;w=999999999999999
        RateLimit: "a";r=999999999999999;t=999999"#,
    ),
    (
        "a reset in no known form",
        "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1794830410500000",
    ),
    (
        "numbers that overflow",
        "X-RateLimit-Limit: 99999999999999999999999
        X-RateLimit-Remaining: 99999999999999999999999
        X-RateLimit-Reset: 99999999999999999999999",
    ),
    (
        "a reset that has passed",
        "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1794830399",
    ),
    (
        "a time alone",
        "X-RateLimit-Reset: 60\nRateLimit: \"a\";t=5",
    ),
];
