INSERT INTO worker_session (worker, pool, slots, host, started, leases, version, beat)
VALUES (%s, %s, %s, %s, %s, %s, %s, coalesce(%s, extract(epoch FROM clock_timestamp())::float8))
ON CONFLICT (worker) DO UPDATE
SET pool = excluded.pool, slots = excluded.slots, host = excluded.host, started = excluded.started,
    leases = excluded.leases, version = excluded.version, beat = excluded.beat
