-- Queries in the dialect of SQLite. `?1` is a parameter that is used more than once.

-- Schema version ------------------------------------------------------------------------------------------------------

-- name: find_schema
SELECT count(*), count(*) FILTER (WHERE name = 'meta') FROM sqlite_schema WHERE type = 'table'

-- name: create_meta
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID

-- One execution -------------------------------------------------------------------------------------------------------

-- name: append_event
INSERT INTO event (execution, seq, type, at, data, hash) VALUES (?, ?, ?, ?, ?, ?)

-- name: read_events_backwards
SELECT seq, type, at, data, hash FROM event
WHERE execution = ? AND seq > ? AND seq < ? AND type IN (SELECT value FROM json_each(?))
ORDER BY seq DESC LIMIT ?

-- name: find_versions
SELECT path, digest, version FROM catalog
WHERE (path, digest) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))

-- name: list_ready_of
SELECT execution, run, pool, at FROM ready WHERE execution IN (SELECT unhex(value) FROM json_each(?))

-- name: put_snapshot
INSERT INTO snapshot (execution, seq, hash, data) VALUES (?, ?, ?, ?)
ON CONFLICT (execution, seq) DO UPDATE SET hash = excluded.hash, data = excluded.data

-- name: delete_snapshot
DELETE FROM snapshot WHERE execution = ? AND seq = ?

-- name: put_outline
INSERT INTO outline (execution, block, data) VALUES (?, ?, ?)
ON CONFLICT (execution, block) DO UPDATE SET data = excluded.data

-- name: put_ready
INSERT INTO ready (execution, run, pool) VALUES (?, ?, ?)
ON CONFLICT (execution, run) DO UPDATE SET pool = excluded.pool

-- name: delete_ready
DELETE FROM ready WHERE execution = ? AND run = ?

-- name: put_lease
INSERT INTO lease (execution, fence, run, worker, since, ttl, granted)
VALUES (?, ?, ?, ?, ?, ?, unixepoch('subsec'))
ON CONFLICT (execution, fence) DO UPDATE
SET run = excluded.run, worker = excluded.worker, since = excluded.since, ttl = excluded.ttl

-- name: delete_lease
DELETE FROM lease WHERE execution = ? AND fence = ?

-- name: put_timer
INSERT INTO timer (execution, name, due) VALUES (?, ?, ?)
ON CONFLICT (execution, name) DO UPDATE SET due = excluded.due

-- name: delete_timer
DELETE FROM timer WHERE execution = ? AND name = ?

-- Output of tasks -----------------------------------------------------------------------------------------------------

-- name: append_output
INSERT INTO log (execution, task, at, stream, line) VALUES (?, ?, ?, ?, ?)

-- Stored content ------------------------------------------------------------------------------------------------------

-- name: put_blob
INSERT INTO blob (key, data) VALUES (?, ?)
ON CONFLICT (key) DO UPDATE SET at = excluded.at

-- name: put_blob_part
INSERT OR IGNORE INTO blob_part (whole, part) VALUES (?, ?)

-- name: put_blob_use
INSERT OR IGNORE INTO blob_use (execution, key) VALUES (?, ?)

-- name: refers
WITH RECURSIVE whole (key) AS (
    SELECT ?2
    UNION
    SELECT blob_part.whole FROM blob_part JOIN whole ON blob_part.part = whole.key
)
SELECT EXISTS (
    SELECT 1 FROM whole JOIN blob_use ON blob_use.key = whole.key WHERE blob_use.execution = ?1
)

-- name: may_read
WITH RECURSIVE whole (key) AS (
    SELECT ?2
    UNION
    SELECT blob_part.whole FROM blob_part JOIN whole ON blob_part.part = whole.key
)
SELECT EXISTS (
    SELECT 1 FROM whole
    JOIN blob_use ON blob_use.key = whole.key
    JOIN lease ON lease.execution = blob_use.execution
    WHERE substr(lease.worker, -length(?1)) = ?1
) OR EXISTS (
    SELECT 1 FROM lease JOIN execution ON execution.id = lease.execution
    WHERE execution.digest = ?2 AND substr(lease.worker, -length(?1)) = ?1
)

-- Lists of executions -------------------------------------------------------------------------------------------------

-- name: put_execution
-- Name, path, start, parent and source never change: to set them would write their indexes again.
INSERT INTO execution (
    id, name, path, status, started, ended, digest, parent, local, continued_errors, source, activity, waits, details
)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE
SET status = excluded.status, ended = excluded.ended, digest = excluded.digest, local = excluded.local,
    continued_errors = excluded.continued_errors, activity = excluded.activity, waits = excluded.waits,
    details = excluded.details

-- name: list_open_of
SELECT id, (SELECT coalesce(max(seq), 0) FROM event WHERE event.execution = execution.id) FROM execution
WHERE status IN ('running', 'waiting') AND NOT local AND digest IN (SELECT value FROM json_each(?))
ORDER BY id

-- Work ----------------------------------------------------------------------------------------------------------------

-- name: find_expired_leases
SELECT lease.execution, lease.fence
FROM lease
JOIN execution ON execution.id = lease.execution
LEFT JOIN worker_session AS session ON session.worker = lease.worker
WHERE max(coalesce(session.beat, 0), lease.granted) + lease.ttl < coalesce(?, unixepoch('subsec'))
AND lease.ttl < ? AND NOT execution.local
ORDER BY max(coalesce(session.beat, 0), lease.granted) + lease.ttl, lease.execution, lease.fence LIMIT ?

-- name: list_leases_of_worker
SELECT lease.execution, lease.fence, unixepoch('subsec') - lease.granted, execution.status = 'paused'
FROM lease
JOIN execution ON execution.id = lease.execution
WHERE lease.worker = ? AND NOT execution.local
ORDER BY lease.execution, lease.fence

-- name: read_clock
SELECT unixepoch('subsec')

-- Workers -------------------------------------------------------------------------------------------------------------

-- name: put_worker
INSERT INTO worker_session (worker, pool, slots, host, started, leases, version, number, beat)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, coalesce(?, unixepoch('subsec')))
ON CONFLICT (worker) DO UPDATE
SET pool = excluded.pool, slots = excluded.slots, host = excluded.host, started = excluded.started,
    leases = excluded.leases, version = excluded.version, number = excluded.number, beat = excluded.beat,
    directive = CASE WHEN worker_session.started = excluded.started THEN worker_session.directive ELSE '' END
WHERE excluded.number = 0 OR excluded.number > worker_session.number OR excluded.started <> worker_session.started
RETURNING worker

-- Removal of old executions -------------------------------------------------------------------------------------------

-- name: read_clock
SELECT unixepoch('subsec')

-- name: remove_blobs
DELETE FROM blob WHERE key IN (
    SELECT key FROM blob
    WHERE NOT EXISTS (SELECT 1 FROM blob_use WHERE blob_use.key = blob.key)
    AND NOT EXISTS (SELECT 1 FROM blob_part WHERE blob_part.part = blob.key)
    AND at < ? LIMIT ?
) RETURNING key

-- name: remove_blob_parts
DELETE FROM blob_part WHERE whole = ?

-- Playbooks -----------------------------------------------------------------------------------------------------------

-- name: register_version
-- The next version under the path, or the existing one of the same content.
INSERT INTO catalog (path, digest, label, version, turn, registered)
SELECT ?1, ?2, ?3, coalesce(max(version), 0) + 1, coalesce(max(turn), 0) + 1, coalesce(?4, unixepoch('subsec'))
FROM catalog WHERE path = ?1
ON CONFLICT (path, digest) DO UPDATE
SET label = excluded.label, turn = excluded.turn, registered = excluded.registered
RETURNING version

-- name: list_paths
SELECT DISTINCT path FROM catalog
WHERE path >= ?1 AND substr(path, 1, length(?1)) = ?1 AND path > ?2 AND instr(lower(path), lower(?3)) > 0
ORDER BY path LIMIT ?4

-- Answers to requests that may be repeated ----------------------------------------------------------------------------

-- name: put_answer
INSERT INTO idempotency (scope, key, answer, at) VALUES (?, ?, ?, coalesce(?, unixepoch('subsec')))
ON CONFLICT (scope, key) DO NOTHING RETURNING key
