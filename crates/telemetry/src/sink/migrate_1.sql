-- From the first version of the tables to the second: the seeds' names of columns, and what is new in them.
ALTER TABLE http_events RENAME COLUMN breaker_state TO breaker_host_state;
ALTER TABLE http_events RENAME COLUMN breaker_cooldown_ms TO breaker_host_cooldown_ms;
ALTER TABLE http_events ADD COLUMN breaker_resolver_state TEXT;
-- A refusal by a resolver's breaker was recorded as one of the host's.
UPDATE http_events SET breaker_resolver_state = breaker_host_state, breaker_host_state = 'closed' WHERE error = 'resolver_breaker_open';
ALTER TABLE rate_events ADD COLUMN estimate_ms REAL;
-- The delay of a refusal was the wait it would have had; how long it did wait is not known.
UPDATE rate_events SET estimate_ms = delay_ms, delay_ms = 0 WHERE action = 'block';
ALTER TABLE breaker_transitions ADD COLUMN elsewhere INTEGER NOT NULL DEFAULT 0;
