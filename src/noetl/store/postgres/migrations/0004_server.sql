-- Workers, as they were last heard. There is no index on what changes at each beat, so that a beat stays on its page.
CREATE TABLE worker_session (
    worker  text COLLATE "C" PRIMARY KEY,
    pool    text NOT NULL,
    slots   bigint NOT NULL,
    host    text NOT NULL,
    started float8 NOT NULL,
    beat    float8 NOT NULL,
    leases  text NOT NULL,      -- JSON: the fences it says it holds, by execution
    version text NOT NULL
) WITH (fillfactor = 50);

-- Which contents the events of an execution need, and which contents a content itself refers to. What is in neither
-- can be removed.
CREATE TABLE blob_use (
    execution uuid NOT NULL,
    key       text NOT NULL,
    PRIMARY KEY (execution, key)
);
CREATE INDEX blob_use_by_key ON blob_use (key);
CREATE TABLE blob_part (
    whole text NOT NULL,
    part  text NOT NULL,
    PRIMARY KEY (whole, part)
);
CREATE INDEX blob_part_by_part ON blob_part (part);

-- Executions that are being removed: out of the lists, but with rows left.
CREATE TABLE removal (
    execution uuid PRIMARY KEY
);

-- Versions of playbooks by path. `turn` counts registrations: the highest is what the path means.
CREATE TABLE catalog (
    path       text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    digest     text NOT NULL,
    label      text NOT NULL,
    registered float8 NOT NULL,
    turn       bigint NOT NULL,
    PRIMARY KEY (path, version),
    UNIQUE (path, digest)
);

-- Answers to requests that may be sent twice.
CREATE TABLE idempotency (
    scope  text NOT NULL,
    key    text NOT NULL,
    answer bytea NOT NULL,
    at     float8 NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX idempotency_by_time ON idempotency (at);

-- Writes a batch of changes if every log is where it is expected, otherwise nothing; answers where the logs are.
--
-- A function, so that a commit is one statement and one round trip. Executions are locked first, and by all writers in
-- the order of the same numbers, so that writers wait for each other but never in a circle. Each query in here sees
-- what had been committed when it began, so what is read behind the locks is the latest. The locks go with the
-- transaction.
--
-- Who brings content or refers to some keeps out who removes what is unused, and the other way round.
CREATE FUNCTION commit_changes(
    locks bigint[], executions uuid[], expected bigint[],
    event_execution uuid[], event_seq bigint[], event_type text[], event_at float8[], event_data bytea[],
    event_hash bytea[],
    summary_id uuid[], summary_name text[], summary_path text[], summary_status text[], summary_started float8[],
    summary_ended float8[], summary_digest text[], summary_parent uuid[], summary_local boolean[],
    ready_execution uuid[], ready_run text[], ready_pool text[],
    lease_execution uuid[], lease_fence bigint[], lease_run text[], lease_worker text[], lease_since float8[],
    lease_ttl float8[],
    timer_execution uuid[], timer_name text[], timer_due float8[],
    snapshot_execution uuid[], snapshot_seq bigint[], snapshot_hash bytea[], snapshot_data bytea[],
    blob_key text[], blob_data bytea[], use_execution uuid[], use_key text[], part_whole text[], part_part text[],
    removing bigint
) RETURNS bigint[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    found bigint[];
    now float8 := extract(epoch FROM clock_timestamp());
BEGIN
    PERFORM pg_advisory_xact_lock(number) FROM unnest(locks) AS number;
    SELECT array_agg((SELECT coalesce(max(seq), 0) FROM event WHERE execution = id) ORDER BY place)
    INTO found FROM unnest(executions) WITH ORDINALITY AS asked (id, place);
    IF found <> expected THEN
        RETURN found;
    END IF;
    IF cardinality(event_seq) > 0 THEN
        INSERT INTO event (execution, seq, type, at, data, hash)
        SELECT * FROM unnest(event_execution, event_seq, event_type, event_at, event_data, event_hash);
    END IF;
    IF cardinality(summary_id) > 0 THEN
        INSERT INTO execution (id, name, path, status, started, ended, digest, parent, local)
        SELECT * FROM unnest(
            summary_id, summary_name, summary_path, summary_status, summary_started, summary_ended, summary_digest,
            summary_parent, summary_local
        )
        ON CONFLICT (id) DO UPDATE
        SET name = excluded.name, path = excluded.path, status = excluded.status, started = excluded.started,
            ended = excluded.ended, digest = excluded.digest, parent = excluded.parent, local = excluded.local;
    END IF;
    IF cardinality(ready_run) > 0 THEN
        DELETE FROM ready USING unnest(ready_execution, ready_run, ready_pool) AS gone (id, name, pool)
        WHERE ready.execution = gone.id AND ready.run = gone.name AND gone.pool IS NULL;
        INSERT INTO ready (execution, run, pool)
        SELECT * FROM unnest(ready_execution, ready_run, ready_pool) AS put (id, name, pool)
        WHERE put.pool IS NOT NULL
        ON CONFLICT (execution, run) DO UPDATE SET pool = excluded.pool;
    END IF;
    IF cardinality(lease_fence) > 0 THEN
        DELETE FROM lease USING unnest(lease_execution, lease_fence, lease_run) AS gone (id, number, run)
        WHERE lease.execution = gone.id AND lease.fence = gone.number AND gone.run IS NULL;
        INSERT INTO lease (execution, fence, run, worker, since, ttl)
        SELECT * FROM unnest(lease_execution, lease_fence, lease_run, lease_worker, lease_since, lease_ttl)
            AS put (id, number, run, worker, since, ttl)
        WHERE put.run IS NOT NULL
        ON CONFLICT (execution, fence) DO UPDATE
        SET run = excluded.run, worker = excluded.worker, since = excluded.since, ttl = excluded.ttl;
    END IF;
    IF cardinality(timer_name) > 0 THEN
        DELETE FROM timer USING unnest(timer_execution, timer_name, timer_due) AS gone (id, name, due)
        WHERE timer.execution = gone.id AND timer.name = gone.name AND gone.due IS NULL;
        INSERT INTO timer (execution, name, due)
        SELECT * FROM unnest(timer_execution, timer_name, timer_due) AS put (id, name, due) WHERE put.due IS NOT NULL
        ON CONFLICT (execution, name) DO UPDATE SET due = excluded.due;
    END IF;
    IF cardinality(snapshot_seq) > 0 THEN
        INSERT INTO snapshot (execution, seq, hash, data)
        SELECT * FROM unnest(snapshot_execution, snapshot_seq, snapshot_hash, snapshot_data)
        ON CONFLICT (execution) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, data = excluded.data;
    END IF;
    IF cardinality(use_key) > 0 THEN
        PERFORM pg_advisory_xact_lock_shared(removing);
        INSERT INTO blob (key, data, at)
        SELECT brought.key, brought.data, now FROM unnest(blob_key, blob_data) AS brought (key, data)
        ORDER BY brought.key
        ON CONFLICT (key) DO UPDATE SET at = excluded.at WHERE blob.at < excluded.at - 3600;
        INSERT INTO blob_use (execution, key) SELECT * FROM unnest(use_execution, use_key)
        ON CONFLICT DO NOTHING;
        INSERT INTO blob_part (whole, part)
        SELECT * FROM unnest(part_whole, part_part) AS found (whole, part) ORDER BY found.whole, found.part
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN found;
END
$$;
