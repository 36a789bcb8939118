-- What the cache did: hit, revalidated, stale or stored, one row per hop. Created beside tables of an older program.
CREATE TABLE IF NOT EXISTS cache_events (
    run_id TEXT NOT NULL,
    ts REAL NOT NULL,
    request INTEGER NOT NULL,
    host TEXT NOT NULL,
    role TEXT NOT NULL,
    action TEXT NOT NULL,
    status INTEGER,
    age_s REAL,
    reason TEXT
);
CREATE INDEX IF NOT EXISTS cache_events_of_run ON cache_events (run_id);
CREATE VIEW IF NOT EXISTS cache_hits AS
    SELECT run_id, host, sum(sent) + sum(hit) AS lookups, sum(hit) AS hits, sum(revalidated) AS revalidated
    FROM (SELECT run_id, host, sent, 0 AS hit, 0 AS revalidated FROM http_events
          UNION ALL
          SELECT run_id, host, 0, action IN ('hit', 'stale'), action = 'revalidated' FROM cache_events)
    GROUP BY run_id, host;
