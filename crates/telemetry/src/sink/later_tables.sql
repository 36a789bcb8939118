-- Tables that databases of the same version may lack: they are made beside those of an older program.
-- What the limiter said to requests of services, by the key of the budget (service:host or host:role), beside their rows in
-- rate_events.
CREATE TABLE IF NOT EXISTS service_waits (
    run_id TEXT NOT NULL,
    ts REAL NOT NULL,
    key TEXT NOT NULL,
    host TEXT NOT NULL,
    role TEXT NOT NULL,
    outcome TEXT NOT NULL,
    delay_ms REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS service_waits_of_run ON service_waits (run_id);
-- What the robots.txt of a host says, one row per change: allows, forbids or unread.
CREATE TABLE IF NOT EXISTS robots_events (
    run_id TEXT NOT NULL,
    ts REAL NOT NULL,
    host TEXT NOT NULL,
    state TEXT NOT NULL,
    crawl_delay_s REAL
);
CREATE INDEX IF NOT EXISTS robots_events_of_run ON robots_events (run_id);
CREATE INDEX IF NOT EXISTS robots_events_of_host ON robots_events (host, ts);
