UPDATE run_summary SET
    cache_hit_pct = (SELECT 100.0 * hits / nullif(hits + sent, 0) FROM
        (SELECT count(*) AS hits FROM cache_events WHERE run_id = ?1 AND action IN ('hit', 'stale')),
        (SELECT count(*) AS sent FROM http_events WHERE run_id = ?1 AND sent = 1)),
    rate_delay_p95_ms = (SELECT rate_delay_ms FROM http_events WHERE run_id = ?1 AND sent = 1 ORDER BY rate_delay_ms
        LIMIT 1 OFFSET (SELECT max(0, (count(*) * 95 + 99) / 100 - 1) FROM http_events WHERE run_id = ?1 AND sent = 1)),
    http_429_ratio = (SELECT avg(status IS 429) FROM http_events WHERE run_id = ?1 AND sent = 1),
    breaker_open_events = CASE WHEN EXISTS (SELECT 1 FROM breaker_transitions WHERE run_id = ?1 AND to_state = 'open') THEN
        (SELECT count(*) FROM breaker_changes WHERE run_id = ?1 AND to_state = 'open' AND reason IS NOT 'early-probe-failed') ELSE 0 END
WHERE run_id = ?1
