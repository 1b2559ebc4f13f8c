-- Queries in the dialect of Postgres.

-- Schema version ------------------------------------------------------------------------------------------------------

-- name: find_schema
-- The number of tables in the schema, and whether `meta` is one of them; no row if there is no schema.
SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = pg_namespace.oid AND relkind IN ('r', 'p')),
    EXISTS (SELECT FROM pg_class WHERE relnamespace = pg_namespace.oid AND relkind = 'r' AND relname = 'meta')
FROM pg_namespace WHERE nspname = %s

-- name: lock_migration
SELECT pg_advisory_xact_lock(hashtextextended('noetl schema ' || %s::text, 0))

-- name: create_meta
CREATE TABLE IF NOT EXISTS meta (key text PRIMARY KEY, value text NOT NULL)

-- name: configure_session
-- synchronous_commit: `off` becomes `on` unless the store is opened with `normal`; stricter settings stay. A session
-- that stops in the middle of a transaction loses its locks after a minute.
SELECT set_config('search_path', quote_ident(%s::text), false),
    set_config('synchronous_commit', CASE
        WHEN %s THEN 'off'
        WHEN current_setting('synchronous_commit') = 'off' THEN 'on'
        ELSE current_setting('synchronous_commit')
    END, false),
    set_config('lock_timeout', '30s', false),
    set_config('idle_in_transaction_session_timeout', '60s', false),
    set_config('jit', 'off', false),
    current_setting('server_encoding')

-- One execution -------------------------------------------------------------------------------------------------------

-- name: commit_changes
SELECT commit_changes(
    %s::bigint[], %s::uuid[], %s::bigint[],
    %s::uuid[], %s::bigint[], %s::text[], %s::float8[], %s::bytea[], %s::bytea[],
    %s::uuid[], %s::text[], %s::text[], %s::text[], %s::float8[], %s::float8[], %s::text[], %s::uuid[], %s::boolean[],
    %s::bigint[], %s::uuid[], %s::text[], %s::text[], %s::bytea[],
    %s::uuid[], %s::text[], %s::text[],
    %s::uuid[], %s::bigint[], %s::text[], %s::text[], %s::float8[], %s::float8[],
    %s::uuid[], %s::text[], %s::float8[],
    %s::uuid[], %s::bigint[], %s::bytea[], %s::bytea[], %s::uuid[], %s::bigint[],
    %s::uuid[], %s::bigint[], %s::bytea[],
    %s::text[], %s::bytea[], %s::uuid[], %s::text[], %s::text[], %s::text[],
    %s::bigint
)

-- name: find_versions
SELECT path, digest, version FROM catalog
WHERE (path, digest) IN (SELECT one ->> 0, one ->> 1 FROM json_array_elements(%s::json) AS one)

-- name: list_ready_of
SELECT execution, run, pool, at FROM ready
WHERE execution = ANY (ARRAY(SELECT json_array_elements_text(%s::json)::uuid))

-- name: read_events_backwards
-- An array, not a join, so that it walks the primary key and stops at the limit.
SELECT seq, type, at, data, hash FROM event
WHERE execution = %s AND seq > %s AND seq < %s AND type = ANY (ARRAY(SELECT json_array_elements_text(%s::json)))
ORDER BY seq DESC LIMIT %s

-- name: put_outline
INSERT INTO outline (execution, block, data) VALUES (%s, %s, %s)
ON CONFLICT (execution, block) DO UPDATE SET data = excluded.data

-- Output of tasks -----------------------------------------------------------------------------------------------------

-- name: append_output
INSERT INTO log (execution, task, at, stream, line)
SELECT execution, task, at, stream, line
FROM unnest(%s::uuid[], %s::text[], %s::float8[], %s::text[], %s::bytea[])
    WITH ORDINALITY AS lines (execution, task, at, stream, line, place)
ORDER BY place

-- Stored content ------------------------------------------------------------------------------------------------------

-- name: refers
WITH RECURSIVE wanted (execution, key) AS (
    SELECT %s::uuid, %s::text
), whole (key) AS (
    SELECT key FROM wanted
    UNION
    SELECT blob_part.whole FROM blob_part JOIN whole ON blob_part.part = whole.key
)
SELECT EXISTS (
    SELECT FROM whole JOIN blob_use ON blob_use.key = whole.key WHERE blob_use.execution = (SELECT execution FROM wanted)
)

-- name: may_read
WITH RECURSIVE wanted (worker, key) AS (
    SELECT %s::text, %s::text
), whole (key) AS (
    SELECT key FROM wanted
    UNION
    SELECT blob_part.whole FROM blob_part JOIN whole ON blob_part.part = whole.key
)
SELECT EXISTS (
    SELECT FROM whole
    JOIN blob_use ON blob_use.key = whole.key
    JOIN lease ON lease.execution = blob_use.execution, wanted
    WHERE right(lease.worker, length(wanted.worker)) = wanted.worker
) OR EXISTS (
    SELECT FROM lease
    JOIN execution ON execution.id = lease.execution, wanted
    WHERE execution.digest = wanted.key AND right(lease.worker, length(wanted.worker)) = wanted.worker
)

-- Lists of executions -------------------------------------------------------------------------------------------------

-- name: list_open_of
SELECT id, (SELECT coalesce(max(seq), 0) FROM event WHERE event.execution = execution.id) FROM execution
WHERE status IN ('running', 'waiting') AND NOT local AND digest IN (SELECT json_array_elements_text(%s::json))
ORDER BY id

-- Work ----------------------------------------------------------------------------------------------------------------

-- name: find_expired_leases
SELECT lease.execution, lease.fence
FROM lease
JOIN execution ON execution.id = lease.execution
LEFT JOIN worker_session AS session ON session.worker = lease.worker
WHERE greatest(session.beat, lease.granted) + lease.ttl < coalesce(%s, extract(epoch FROM clock_timestamp())::float8)
AND lease.ttl < %s AND NOT execution.local
ORDER BY greatest(session.beat, lease.granted) + lease.ttl, lease.execution, lease.fence LIMIT %s

-- name: list_leases_of_worker
SELECT lease.execution, lease.fence, extract(epoch FROM clock_timestamp())::float8 - lease.granted,
    execution.status = 'paused'
FROM lease
JOIN execution ON execution.id = lease.execution
WHERE lease.worker = %s AND NOT execution.local
ORDER BY lease.execution, lease.fence

-- name: read_clock
SELECT extract(epoch FROM clock_timestamp())::float8

-- Workers -------------------------------------------------------------------------------------------------------------

-- name: put_worker
INSERT INTO worker_session (worker, pool, slots, host, started, leases, version, number, beat)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, coalesce(%s, extract(epoch FROM clock_timestamp())::float8))
ON CONFLICT (worker) DO UPDATE
SET pool = excluded.pool, slots = excluded.slots, host = excluded.host, started = excluded.started,
    leases = excluded.leases, version = excluded.version, number = excluded.number, beat = excluded.beat,
    directive = CASE WHEN worker_session.started = excluded.started THEN worker_session.directive ELSE '' END
WHERE excluded.number = 0 OR excluded.number > worker_session.number OR excluded.started <> worker_session.started
RETURNING worker

-- Removal of old executions -------------------------------------------------------------------------------------------

-- name: read_clock
SELECT extract(epoch FROM clock_timestamp())::float8

-- name: lock_pruning
SELECT pg_try_advisory_lock(%s)

-- name: unlock_pruning
SELECT pg_advisory_unlock(%s)

-- name: lock_blobs
-- No commit adds or references content while unused content is removed.
SELECT pg_advisory_xact_lock(%s)

-- name: remove_blobs
WITH gone AS (
    DELETE FROM blob WHERE key IN (
        SELECT key FROM blob
        WHERE NOT EXISTS (SELECT FROM blob_use WHERE blob_use.key = blob.key)
        AND NOT EXISTS (SELECT FROM blob_part WHERE blob_part.part = blob.key)
        AND at < %s LIMIT %s
    ) RETURNING key
), parts AS (
    DELETE FROM blob_part WHERE whole IN (SELECT key FROM gone)
)
SELECT count(*) FROM gone

-- Playbooks -----------------------------------------------------------------------------------------------------------

-- name: lock_path
-- Serializes registrations under the same path.
SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))

-- name: register_version
-- The next version under the path, or the existing one of the same content.
WITH new AS (SELECT %s::text COLLATE "C" AS path, %s::text AS digest, %s::text AS label, %s::float8 AS at)
INSERT INTO catalog (path, digest, label, version, turn, registered)
SELECT new.path, new.digest, new.label,
    (SELECT coalesce(max(version), 0) + 1 FROM catalog WHERE catalog.path = new.path),
    (SELECT coalesce(max(turn), 0) + 1 FROM catalog WHERE catalog.path = new.path),
    coalesce(new.at, extract(epoch FROM clock_timestamp())::float8)
FROM new
ON CONFLICT (path, digest) DO UPDATE
SET label = excluded.label, turn = excluded.turn, registered = excluded.registered
RETURNING version

-- name: list_paths
WITH wanted AS (SELECT %s::text COLLATE "C" AS prefix, %s::text COLLATE "C" AS after, %s::text COLLATE "C" AS part)
SELECT DISTINCT path FROM catalog, wanted
WHERE path >= wanted.prefix AND starts_with(path, wanted.prefix) AND path > wanted.after
AND strpos(lower(path), lower(wanted.part)) > 0
ORDER BY path LIMIT %s

-- Answers to requests that may be repeated ----------------------------------------------------------------------------

-- name: put_answer
INSERT INTO idempotency (scope, key, answer, at)
VALUES (%s, %s, %s, coalesce(%s, extract(epoch FROM clock_timestamp())::float8))
ON CONFLICT (scope, key) DO NOTHING RETURNING key

-- Notifications -------------------------------------------------------------------------------------------------------

-- name: notify
-- Does not wait for the disk: a notification is only a hint.
SELECT set_config('synchronous_commit', 'off', true), pg_notify('noetl_events', '')
