INSERT INTO worker_session (worker, pool, slots, host, started, leases, version, beat)
VALUES (?, ?, ?, ?, ?, ?, ?, coalesce(?, unixepoch('subsec')))
ON CONFLICT (worker) DO UPDATE
SET pool = excluded.pool, slots = excluded.slots, host = excluded.host, started = excluded.started,
    leases = excluded.leases, version = excluded.version, beat = excluded.beat
