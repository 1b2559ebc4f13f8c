-- Queries that work in SQLite and in Postgres. The `queries.sql` of each database has the others.
--
-- A line `-- name: NAME` starts a query. `-- if OPTION: SQL` is a part of it only in the query `NAME: OPTION`, which may
-- name several options in the order of their lines. Other comments are not sent. Parameters are `?`, which queries.py
-- replaces with `%s` for Postgres.

-- Schema version ------------------------------------------------------------------------------------------------------

-- name: get_version
SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'schema'

-- name: put_version
INSERT INTO meta (key, value) VALUES ('schema', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- The last commit -----------------------------------------------------------------------------------------------------

-- name: get_identity
SELECT key, value FROM meta WHERE key IN ('incarnations', 'pruned')

-- name: get_event_hash
SELECT hash FROM event WHERE execution = ? AND seq = ?

-- name: add_incarnation
UPDATE meta SET value = value || ' ' || ? WHERE key = 'incarnations'

-- One execution -------------------------------------------------------------------------------------------------------

-- name: last_seq
SELECT coalesce(max(seq), 0) FROM event WHERE execution = ?

-- name: read_events
SELECT seq, type, at, data, hash FROM event WHERE execution = ? AND seq > ? ORDER BY seq LIMIT ?

-- name: get_snapshot
SELECT seq, hash, data FROM snapshot WHERE execution = ? AND seq <= ? ORDER BY seq DESC LIMIT 1

-- name: copy_snapshots
INSERT INTO snapshot (execution, seq, hash, data)
SELECT ?, seq, hash, data FROM snapshot WHERE execution = ? AND seq <= ?
ON CONFLICT DO NOTHING

-- name: list_snapshots
SELECT seq FROM snapshot WHERE execution = ? ORDER BY seq

-- name: get_outline
SELECT block, data FROM outline WHERE execution = ? AND block >= ? ORDER BY block LIMIT ?

-- name: read_ready
SELECT run, pool FROM ready WHERE execution = ?

-- name: read_leases
SELECT fence, run, worker, since, ttl FROM lease WHERE execution = ?

-- name: read_timers
SELECT name, due FROM timer WHERE execution = ?

-- Output of tasks -----------------------------------------------------------------------------------------------------

-- name: read_output
SELECT number, task, at, stream, line FROM log WHERE execution = ? AND number > ? ORDER BY number LIMIT ?

-- name: read_output_before
SELECT number, task, at, stream, line FROM log WHERE execution = ? AND number < ? ORDER BY number DESC LIMIT ?

-- name: output_number
SELECT number FROM log WHERE execution = ? ORDER BY number LIMIT 1 OFFSET ?

-- name: count_output
SELECT count(*) FROM log WHERE execution = ? AND number < ?

-- Stored content ------------------------------------------------------------------------------------------------------

-- name: get_blob
SELECT data FROM blob WHERE key = ?

-- name: get_blob_size
SELECT length(data) FROM blob WHERE key = ?

-- name: get_blob_part
-- In SQLite the part of an empty content is NULL.
SELECT coalesce(substr(data, CAST(? AS integer), CAST(? AS integer)), data) FROM blob WHERE key = ?

-- Lists of executions -------------------------------------------------------------------------------------------------

-- name: list_executions
SELECT id, name, path, status, started, ended, digest, parent, local, continued_errors, source,
    activity, waits, details
FROM execution
WHERE started >= ? AND (started, id) < (?, ?)
-- if parent: AND parent = ?
-- if source: AND source = ?
-- if top: AND parent IS NULL
-- if waits: AND waits <> '' AND waits LIKE ?
-- if pool: AND id IN (SELECT execution FROM ready WHERE pool = ?)
-- if status: AND status = ?
-- if path: AND path = ?
-- if prefix: AND substr(path, 1, ?) = ?
-- if name: AND name = ?
-- if contains: AND (lower(name) LIKE lower(?) ESCAPE '!' OR lower(path) LIKE lower(?) ESCAPE '!')
ORDER BY started DESC, id DESC LIMIT ?

-- name: find_executions
-- With `+started` no database walks the index of starts to find one id.
SELECT id, name, path, status, started, ended, digest, parent, local, continued_errors, source,
    activity, waits, details
FROM execution
WHERE started >= ? AND (started, id) < (?, ?) AND id BETWEEN ? AND ?
-- if parent: AND parent = ?
-- if source: AND source = ?
-- if top: AND parent IS NULL
-- if waits: AND waits <> '' AND waits LIKE ?
-- if pool: AND id IN (SELECT execution FROM ready WHERE pool = ?)
-- if status: AND status = ?
-- if path: AND path = ?
-- if prefix: AND substr(path, 1, ?) = ?
-- if name: AND name = ?
-- if contains: AND (lower(name) LIKE lower(?) ESCAPE '!' OR lower(path) LIKE lower(?) ESCAPE '!')
ORDER BY +started DESC, id DESC LIMIT ?

-- name: list_run_paths
-- Skips from one path to the next in their index, instead of reading all executions.
WITH RECURSIVE playbook (path) AS (
    SELECT min(path) FROM execution
    UNION ALL
    SELECT (SELECT min(following.path) FROM execution AS following WHERE following.path > playbook.path)
    FROM playbook WHERE playbook.path IS NOT NULL
)
SELECT path FROM playbook WHERE path IS NOT NULL
-- if prefix: AND substr(path, 1, ?) = ?
-- if contains: AND (lower((
-- if contains:     SELECT name FROM execution WHERE execution.path = playbook.path ORDER BY started DESC LIMIT 1
-- if contains: )) LIKE lower(?) ESCAPE '!' OR lower(path) LIKE lower(?) ESCAPE '!')
LIMIT ?

-- name: count_executions
SELECT status, count(*) FROM execution
WHERE status IN ('pending', 'running', 'waiting', 'paused', 'cancelling', 'succeeded', 'failed', 'cancelled')
AND started >= ?
-- if top: AND parent IS NULL
-- if path: AND path = ?
-- if prefix: AND substr(path, 1, ?) = ?
GROUP BY status

-- name: count_children
SELECT count(*) FROM execution WHERE parent = ?

-- name: count_forks
SELECT count(*) FROM execution WHERE source = ?

-- name: list_ready_pools
SELECT DISTINCT pool FROM ready

-- name: list_children
SELECT id, name, path, status, started, ended, digest, parent, local, continued_errors, source,
    activity, waits, details
FROM execution
WHERE parent = ? AND ended IS NULL ORDER BY id

-- name: list_open_children
SELECT id FROM execution WHERE parent IS NOT NULL AND ended IS NULL ORDER BY parent, id

-- name: list_open_digests
SELECT DISTINCT digest FROM execution
WHERE status IN ('running', 'waiting') AND NOT local ORDER BY digest

-- name: find_stray_children
SELECT child.id FROM execution AS child
WHERE child.ended IS NULL AND child.parent IS NOT NULL AND NOT child.local
AND NOT EXISTS (
  SELECT 1 FROM execution AS above
  WHERE above.id = child.parent AND above.ended IS NULL AND (above.status = 'paused') = (child.status = 'paused')
)
ORDER BY child.id LIMIT ?

-- name: count_open
SELECT status, count(*) FROM execution
WHERE status IN ('pending', 'running', 'waiting', 'paused', 'cancelling')
GROUP BY status

-- name: count_work
SELECT (SELECT count(*) FROM ready), (SELECT count(*) FROM lease), (SELECT count(*) FROM timer)

-- Work ----------------------------------------------------------------------------------------------------------------

-- name: count_queued
SELECT ready.pool, count(*), min(ready.at) FROM ready JOIN execution ON execution.id = ready.execution
WHERE NOT execution.local AND execution.status <> 'paused'
GROUP BY ready.pool ORDER BY ready.pool

-- name: find_ready
SELECT DISTINCT ready.execution FROM ready JOIN execution ON execution.id = ready.execution
WHERE ready.pool = ? AND ready.execution > ? AND NOT execution.local AND execution.status <> 'paused'
ORDER BY ready.execution LIMIT ?

-- name: find_due
SELECT timer.execution, timer.name FROM timer JOIN execution ON execution.id = timer.execution
WHERE timer.due <= ? AND NOT execution.local AND execution.status <> 'paused'
ORDER BY timer.due, timer.execution, timer.name LIMIT ?

-- name: next_due
SELECT timer.due FROM timer JOIN execution ON execution.id = timer.execution
WHERE NOT execution.local AND execution.status <> 'paused'
ORDER BY timer.due LIMIT 1

-- name: list_leases
SELECT lease.execution, lease.fence FROM lease JOIN execution ON execution.id = lease.execution
WHERE NOT execution.local ORDER BY lease.execution, lease.fence

-- Workers -------------------------------------------------------------------------------------------------------------

-- name: find_worker
SELECT worker, pool, slots, host, started, beat, leases, version, directive, number FROM worker_session WHERE worker = ?

-- name: list_workers
SELECT worker, pool, slots, host, started, beat, leases, version, directive, number FROM worker_session ORDER BY worker

-- name: direct_worker
UPDATE worker_session SET directive = ? WHERE worker = ?

-- Removal of old executions -------------------------------------------------------------------------------------------

-- name: list_prunable
SELECT id, name, path, status, started, ended, digest, parent, local, continued_errors, source,
    activity, waits, details
FROM execution
WHERE ended < ?
AND NOT EXISTS (SELECT 1 FROM execution AS above WHERE above.id = execution.parent AND above.ended IS NULL)
AND NOT EXISTS (SELECT 1 FROM execution AS below WHERE below.parent = execution.id AND below.ended IS NULL)
ORDER BY ended, id LIMIT ?

-- name: mark_for_removal
INSERT INTO removal (execution)
SELECT id FROM execution
WHERE ended < ?
AND NOT EXISTS (SELECT 1 FROM execution AS above WHERE above.id = execution.parent AND above.ended IS NULL)
AND NOT EXISTS (SELECT 1 FROM execution AS below WHERE below.parent = execution.id AND below.ended IS NULL)
ORDER BY ended, id LIMIT ?
ON CONFLICT DO NOTHING RETURNING execution

-- name: put_pruned
-- When the last of the executions ended, and a minute: the clock of another server with an event of it may be ahead.
INSERT INTO meta (key, value)
SELECT 'pruned', CAST(CAST(max(ended) AS bigint) + 60 AS text) FROM execution
WHERE id IN (SELECT execution FROM removal) HAVING max(ended) IS NOT NULL
ON CONFLICT (key) DO UPDATE SET value = excluded.value
WHERE CAST(excluded.value AS bigint) > CAST(meta.value AS bigint)

-- name: remove_executions
DELETE FROM execution WHERE id IN (SELECT execution FROM removal)

-- name: remove_events
-- From the end of a log to its start: an interrupted removal leaves a shorter log without gaps.
DELETE FROM event WHERE (execution, seq) IN (
    SELECT execution, seq FROM event WHERE execution IN (SELECT execution FROM removal)
    ORDER BY execution DESC, seq DESC LIMIT ?
)
RETURNING 1

-- name: remove_output
DELETE FROM log WHERE number IN (
    SELECT number FROM log WHERE execution IN (SELECT execution FROM removal) LIMIT ?
)
RETURNING 1

-- name: remove_snapshots
DELETE FROM snapshot WHERE execution IN (SELECT execution FROM removal)

-- name: remove_outlines
DELETE FROM outline WHERE execution IN (SELECT execution FROM removal)

-- name: remove_ready
DELETE FROM ready WHERE execution IN (SELECT execution FROM removal)

-- name: remove_leases
DELETE FROM lease WHERE execution IN (SELECT execution FROM removal)

-- name: remove_timers
DELETE FROM timer WHERE execution IN (SELECT execution FROM removal)

-- name: remove_blob_uses
DELETE FROM blob_use WHERE execution IN (SELECT execution FROM removal)

-- name: end_removal
-- Another process may have marked more executions in the meantime: those still have events.
DELETE FROM removal
WHERE NOT EXISTS (SELECT 1 FROM event WHERE event.execution = removal.execution)
AND NOT EXISTS (SELECT 1 FROM log WHERE log.execution = removal.execution)

-- name: delete_old_answers
DELETE FROM idempotency WHERE at < ?

-- name: delete_silent_workers
DELETE FROM worker_session
WHERE beat < ? AND NOT EXISTS (SELECT 1 FROM lease WHERE lease.worker = worker_session.worker)

-- Playbooks -----------------------------------------------------------------------------------------------------------

-- name: get_playbook
SELECT file, text FROM playbook WHERE digest = ?

-- name: put_playbook
INSERT INTO playbook (digest, file, text) VALUES (?, ?, ?) ON CONFLICT DO NOTHING

-- name: list_versions
SELECT version, digest, label, registered FROM catalog WHERE path = ? ORDER BY turn DESC LIMIT ?

-- name: find_digest
SELECT digest FROM catalog WHERE path = ? AND version = ?

-- name: find_latest_digest
SELECT digest FROM catalog WHERE path = ? ORDER BY turn DESC LIMIT 1

-- Answers to requests that may be repeated ----------------------------------------------------------------------------

-- name: get_answer
SELECT answer FROM idempotency WHERE scope = ? AND key = ?

-- Credentials ---------------------------------------------------------------------------------------------------------

-- name: list_credentials
SELECT name, kind, sealed, created, updated, paths, pools FROM credential ORDER BY name

-- name: get_credential
SELECT name, kind, sealed, created, updated, paths, pools FROM credential WHERE name = ?

-- name: put_credential
INSERT INTO credential (name, kind, sealed, created, updated, paths, pools) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE
SET kind = excluded.kind, sealed = excluded.sealed, updated = excluded.updated, paths = excluded.paths,
    pools = excluded.pools

-- name: reseal_credential
-- Only if the sealed bytes are unchanged since they were read.
UPDATE credential SET sealed = ? WHERE name = ? AND sealed = ? RETURNING name

-- name: delete_credential
DELETE FROM credential WHERE name = ? RETURNING name

-- Tokens, users and sessions ------------------------------------------------------------------------------------------

-- name: list_tokens
SELECT id, hash, role, name, created, pool, expires, revoked FROM token ORDER BY created, id

-- name: get_token
SELECT id, hash, role, name, created, pool, expires, revoked FROM token WHERE hash = ?

-- name: get_token_by_id
SELECT id, hash, role, name, created, pool, expires, revoked FROM token WHERE id = ?

-- name: add_token
INSERT INTO token (id, hash, role, name, created, pool, expires, revoked) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: revoke_token
UPDATE token SET revoked = ? WHERE id = ? AND revoked IS NULL RETURNING id

-- name: list_users
SELECT name, role, password, created FROM account ORDER BY name

-- name: get_user
SELECT name, role, password, created FROM account WHERE name = ?

-- name: add_user
INSERT INTO account (name, role, password, created) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING name

-- name: change_user
UPDATE account SET role = ?, password = ? WHERE name = ? RETURNING name

-- name: delete_user
DELETE FROM account WHERE name = ? RETURNING name

-- name: list_sessions
SELECT id, hash, account, created, seen, expires, agent, address FROM session
WHERE CAST(? AS text) IS NULL OR account = ? ORDER BY created DESC, id DESC

-- name: get_session
SELECT id, hash, account, created, seen, expires, agent, address FROM session WHERE hash = ?

-- name: add_session
INSERT INTO session (id, hash, account, created, seen, expires, agent, address) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: touch_session
UPDATE session SET seen = ? WHERE id = ? AND seen < ?

-- name: delete_session
DELETE FROM session WHERE id = ? RETURNING id

-- name: delete_sessions
DELETE FROM session WHERE account = ? RETURNING id

-- name: delete_expired_sessions
DELETE FROM session WHERE expires <= ?

-- Schedules and hooks -------------------------------------------------------------------------------------------------

-- name: list_schedules
SELECT data FROM schedule WHERE name > ? ORDER BY name LIMIT ?

-- name: get_schedule
SELECT data FROM schedule WHERE name = ?

-- name: find_due_schedules
SELECT data FROM schedule WHERE look <= ? ORDER BY look, name LIMIT ?

-- name: add_schedule
INSERT INTO schedule (name, id, revision, look, data) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING name

-- name: change_schedule
UPDATE schedule SET revision = ?, look = ?, data = ? WHERE name = ? AND id = ? AND revision = ? RETURNING name

-- name: delete_schedule
DELETE FROM schedule WHERE name = ? RETURNING name

-- name: list_hooks
SELECT name, path, version, created, updated FROM hook ORDER BY name

-- name: get_hook
SELECT name, path, version, created, updated FROM hook WHERE name = ?

-- name: put_hook
INSERT INTO hook (name, path, version, created, updated) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET path = excluded.path, version = excluded.version, updated = excluded.updated

-- name: delete_hook
DELETE FROM hook WHERE name = ? RETURNING name
