-- The changes of breakers to open and closed, each once: an open that a run only met belongs to the
-- run that caused it or, where none of this database did, to the first that met it.
SELECT id, run_id, ts, scope, key, host, to_state, reset_timeout_s, reason FROM (
    SELECT rowid AS id, *, lag(to_state) OVER each_key AS was,
           lag(ts + coalesce(reset_timeout_s, 0)) OVER each_key AS was_until,
           lead(to_state) OVER each_key AS next, lead(ts) OVER each_key AS next_ts,
           lead(elsewhere) OVER each_key AS next_elsewhere
    FROM breaker_transitions WHERE to_state <> 'half_open'
    WINDOW each_key AS (PARTITION BY scope, key ORDER BY ts, rowid))
WHERE to_state = 'closed' OR elsewhere = 0 OR NOT coalesce(
    (was = 'open' AND ts < was_until) OR (next = 'open' AND next_elsewhere = 0 AND next_ts < ts + 5), 0)
