-- The database of runs. Times are seconds since 1970 UTC: datetime(ts, 'unixepoch') shows them.
CREATE TABLE IF NOT EXISTS run_summary (
    run_id TEXT PRIMARY KEY,
    command TEXT NOT NULL,
    config_hash TEXT NOT NULL,
    version TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    finished_at REAL,
    dropped INTEGER NOT NULL DEFAULT 0,
    lost INTEGER NOT NULL DEFAULT 0,
    artifacts_total INTEGER,
    artifacts_success INTEGER,
    yield_pct REAL,
    ttfp_p50_ms REAL,
    ttfp_p95_ms REAL,
    cache_hit_pct REAL,
    rate_delay_p95_ms REAL,
    http_429_ratio REAL,
    breaker_open_events INTEGER,
    dedupe_saved_mb REAL,
    corruption_count INTEGER
);
-- One row per attempt; one that a breaker denied has sent = 0.
CREATE TABLE IF NOT EXISTS http_events (
    run_id TEXT NOT NULL,
    ts REAL NOT NULL,
    request INTEGER NOT NULL,
    host TEXT NOT NULL,
    role TEXT NOT NULL,
    resolver TEXT,
    kind TEXT,
    method TEXT NOT NULL,
    status INTEGER,
    url_hash TEXT NOT NULL,
    url TEXT,
    sent INTEGER NOT NULL,
    from_cache INTEGER NOT NULL DEFAULT 0,
    revalidated INTEGER NOT NULL DEFAULT 0,
    stale INTEGER NOT NULL DEFAULT 0,
    retry_count INTEGER NOT NULL,
    retry_after_s REAL,
    rate_delay_ms REAL NOT NULL,
    rate_concurrency_wait_ms REAL NOT NULL,
    breaker_wait_ms REAL NOT NULL,
    breaker_host_state TEXT NOT NULL,
    breaker_host_cooldown_ms REAL,
    breaker_recorded TEXT NOT NULL,
    header_ms REAL,
    body_ms REAL,
    elapsed_ms REAL NOT NULL,
    bytes INTEGER NOT NULL,
    wasted INTEGER NOT NULL,
    error TEXT,
    breaker_resolver_state TEXT
);
CREATE INDEX IF NOT EXISTS http_events_of_run ON http_events (run_id);
-- What the limiter said: acquire, block, head_skip or given_back.
CREATE TABLE IF NOT EXISTS rate_events (
    run_id TEXT NOT NULL,
    ts REAL NOT NULL,
    host TEXT NOT NULL,
    role TEXT NOT NULL,
    kind TEXT,
    action TEXT NOT NULL,
    weight INTEGER NOT NULL,
    mode TEXT NOT NULL,
    delay_ms REAL NOT NULL,
    max_delay_ms REAL,
    estimate_ms REAL
);
CREATE INDEX IF NOT EXISTS rate_events_of_run ON rate_events (run_id);
CREATE TABLE IF NOT EXISTS breaker_transitions (
    run_id TEXT NOT NULL,
    ts REAL NOT NULL,
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    host TEXT NOT NULL,
    from_state TEXT NOT NULL,
    to_state TEXT NOT NULL,
    fail_count INTEGER NOT NULL,
    reset_timeout_s REAL,
    reason TEXT,
    elsewhere INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS breaker_transitions_of_run ON breaker_transitions (run_id);
CREATE TABLE IF NOT EXISTS aimd_events (
    run_id TEXT NOT NULL,
    ts REAL NOT NULL,
    host TEXT NOT NULL,
    role TEXT NOT NULL,
    old REAL NOT NULL,
    new REAL NOT NULL,
    reason TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS aimd_events_of_run ON aimd_events (run_id);
-- One row per request that came to its end.
CREATE TABLE IF NOT EXISTS request_ends (
    run_id TEXT NOT NULL,
    ts REAL NOT NULL,
    request INTEGER NOT NULL,
    host TEXT NOT NULL,
    role TEXT NOT NULL,
    resolver TEXT,
    attempts INTEGER NOT NULL,
    status INTEGER,
    stopped TEXT,
    error TEXT,
    elapsed_ms REAL NOT NULL,
    url TEXT
);
CREATE INDEX IF NOT EXISTS request_ends_of_run ON request_ends (run_id);
-- The budgets that were charged, and their windows.
CREATE TABLE IF NOT EXISTS budgets (
    run_id TEXT NOT NULL,
    host TEXT NOT NULL,
    role TEXT NOT NULL,
    kind TEXT,
    budget TEXT NOT NULL,
    rates TEXT NOT NULL,
    reset_timeout_s REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS budgets_of_run ON budgets (run_id);

-- A view per question.
CREATE VIEW IF NOT EXISTS opens_per_hour AS
    SELECT run_id, scope, key, strftime('%Y-%m-%d %H:00', ts, 'unixepoch') AS hour, count(*) AS opens
    FROM breaker_changes WHERE to_state = 'open' AND reason IS NOT 'early-probe-failed' GROUP BY run_id, scope, key, hour;
CREATE VIEW IF NOT EXISTS time_open AS
    SELECT run_id, scope, key, round(sum(length_s), 3) AS open_s FROM (
        SELECT run_id, scope, key, to_state,
               min(coalesce(lead(ts) OVER each_key, ts + coalesce(reset_timeout_s, 0)), ts + coalesce(reset_timeout_s, 1e9)) - ts AS length_s
        FROM breaker_changes WINDOW each_key AS (PARTITION BY scope, key ORDER BY ts, id))
    WHERE to_state = 'open' GROUP BY run_id, scope, key;
CREATE VIEW IF NOT EXISTS requests_avoided AS
    SELECT d.run_id, d.host, count(*) AS avoided,
           round(sum(min(d.breaker_host_cooldown_ms, coalesce(e.expected_ms, d.breaker_host_cooldown_ms))) / 1000.0, 3) AS saved_s
    FROM http_events d
    LEFT JOIN (SELECT run_id, host, avg(elapsed_ms) AS expected_ms FROM http_events WHERE sent = 1 GROUP BY run_id, host) e
        ON e.run_id = d.run_id AND e.host = d.host
    WHERE d.sent = 0 GROUP BY d.run_id, d.host;
-- The ratio counts an outage once, however many of its early probes failed.
CREATE VIEW IF NOT EXISTS success_after_open AS
    SELECT p.run_id, p.host, probes, successes,
           round(1.0 * successes / max(probes - coalesce(failed, 0) + coalesce(lasting, 0), 1), 3) AS ratio
    FROM (SELECT run_id, host, count(*) AS probes, sum(breaker_recorded = 'success') AS successes
          FROM http_events WHERE sent = 1 AND breaker_host_state = 'half_open' GROUP BY run_id, host) p
    LEFT JOIN (SELECT run_id, host, count(*) AS failed, sum(next IS NULL OR next = 'open') AS lasting
               FROM (SELECT run_id, host, reason,
                            lead(CASE reason WHEN 'early-probe-failed' THEN 'early' ELSE to_state END) OVER each_key AS next
                     FROM breaker_transitions
                     WHERE to_state IN ('open', 'closed') AND scope IN ('host', 'site', 'role') AND elsewhere = 0
                     WINDOW each_key AS (PARTITION BY run_id, scope, key ORDER BY ts, rowid))
               WHERE reason = 'early-probe-failed' GROUP BY run_id, host) e
        ON e.run_id = p.run_id AND e.host = p.host;
CREATE VIEW IF NOT EXISTS open_reasons AS
    SELECT run_id, scope, key, reason, count(*) AS opens,
           round(100.0 * count(*) / sum(count(*)) OVER (PARTITION BY run_id, scope, key), 1) AS percent
    FROM breaker_changes WHERE to_state = 'open' AND reason IS NOT 'early-probe-failed' GROUP BY run_id, scope, key, reason;
CREATE VIEW IF NOT EXISTS failure_reasons AS
    SELECT run_id, host, coalesce(error, 'http_' || status) AS reason, count(*) AS attempts
    FROM http_events WHERE error IS NOT NULL OR status >= 400 GROUP BY run_id, host, reason;
CREATE VIEW IF NOT EXISTS rate_delays AS
    SELECT run_id, host, role, count(*) AS attempts,
           max(CASE WHEN place <= 0.50 THEN rate_delay_ms END) AS p50_ms,
           max(CASE WHEN place <= 0.95 THEN rate_delay_ms END) AS p95_ms,
           max(CASE WHEN place <= 0.99 THEN rate_delay_ms END) AS p99_ms,
           max(rate_delay_ms) AS max_ms
    FROM (SELECT run_id, host, role, rate_delay_ms,
                 (row_number() OVER each_role - 1.0) / count(*) OVER (PARTITION BY run_id, host, role) AS place
          FROM http_events WHERE sent = 1 WINDOW each_role AS (PARTITION BY run_id, host, role ORDER BY rate_delay_ms))
    GROUP BY run_id, host, role;
CREATE VIEW IF NOT EXISTS tokens AS
    SELECT run_id, host, role, sum(CASE action WHEN 'acquire' THEN weight WHEN 'given_back' THEN -weight ELSE 0 END) AS acquired, sum(action = 'block') AS blocked,
           sum(action = 'head_skip') AS head_skipped
    FROM rate_events GROUP BY run_id, host, role;
CREATE VIEW IF NOT EXISTS throttled AS
    SELECT run_id, host, status, sum(retry_after_s IS NOT NULL) AS with_retry_after, sum(retry_after_s IS NULL) AS without_retry_after
    FROM http_events WHERE status IN (429, 503) GROUP BY run_id, host, status;
CREATE VIEW IF NOT EXISTS slowest_hosts AS
    SELECT run_id, host, count(*) AS attempts, round(avg(elapsed_ms), 3) AS mean_ms, max(elapsed_ms) AS max_ms, sum(bytes) AS bytes
    FROM http_events WHERE sent = 1 GROUP BY run_id, host;
