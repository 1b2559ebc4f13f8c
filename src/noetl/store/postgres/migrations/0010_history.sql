-- The past of a long execution without folding its log: several snapshots, and an outline in blocks of 1,000 events.
-- Lists show what each execution does, and find forks by their source.

ALTER TABLE snapshot DROP CONSTRAINT snapshot_pkey;
ALTER TABLE snapshot ADD PRIMARY KEY (execution, seq);

-- A pure function of the log, written in the commit that completes the block; block 0 has the events 1 to 1,000.
CREATE TABLE outline (
    execution uuid NOT NULL,
    block     bigint NOT NULL,
    data      bytea NOT NULL,
    PRIMARY KEY (execution, block)
);

ALTER TABLE execution ADD COLUMN source uuid;                         -- the execution from which it was forked
ALTER TABLE execution ADD COLUMN activity text NOT NULL DEFAULT '';   -- one sentence
ALTER TABLE execution ADD COLUMN waits text NOT NULL DEFAULT '';      -- the kinds of its waits, each between spaces
ALTER TABLE execution ADD COLUMN details bytea NOT NULL DEFAULT '{}'; -- JSON
CREATE INDEX execution_by_source ON execution (source, started, id) WHERE source IS NOT NULL;

-- The function of migration 8 with these columns and tables. Earlier ones stay for servers that have not been upgraded
-- yet: these cannot store snapshots any more, which are now several for an execution.
CREATE FUNCTION commit_changes(
    locks bigint[], executions uuid[], expected bigint[],
    event_execution uuid[], event_seq bigint[], event_type text[], event_at float8[], event_data bytea[],
    event_hash bytea[],
    summary_id uuid[], summary_name text[], summary_path text[], summary_status text[], summary_started float8[],
    summary_ended float8[], summary_digest text[], summary_parent uuid[], summary_local boolean[],
    summary_errors bigint[], summary_source uuid[], summary_activity text[], summary_waits text[],
    summary_details bytea[],
    ready_execution uuid[], ready_run text[], ready_pool text[],
    lease_execution uuid[], lease_fence bigint[], lease_run text[], lease_worker text[], lease_since float8[],
    lease_ttl float8[],
    timer_execution uuid[], timer_name text[], timer_due float8[],
    snapshot_execution uuid[], snapshot_seq bigint[], snapshot_hash bytea[], snapshot_data bytea[],
    stale_execution uuid[], stale_seq bigint[],
    outline_execution uuid[], outline_block bigint[], outline_data bytea[],
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
        INSERT INTO execution (
            id, name, path, status, started, ended, digest, parent, local, continued_errors, source, activity, waits,
            details
        )
        SELECT * FROM unnest(
            summary_id, summary_name, summary_path, summary_status, summary_started, summary_ended, summary_digest,
            summary_parent, summary_local, summary_errors, summary_source, summary_activity, summary_waits,
            summary_details
        )
        ON CONFLICT (id) DO UPDATE
        SET name = excluded.name, path = excluded.path, status = excluded.status,
            ended = excluded.ended, digest = excluded.digest, parent = excluded.parent, local = excluded.local,
            continued_errors = excluded.continued_errors, source = excluded.source, activity = excluded.activity,
            waits = excluded.waits, details = excluded.details;
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
        ON CONFLICT (execution, seq) DO UPDATE SET hash = excluded.hash, data = excluded.data;
    END IF;
    IF cardinality(stale_seq) > 0 THEN
        DELETE FROM snapshot USING unnest(stale_execution, stale_seq) AS stale (id, number)
        WHERE snapshot.execution = stale.id AND snapshot.seq = stale.number;
    END IF;
    IF cardinality(outline_block) > 0 THEN
        INSERT INTO outline (execution, block, data)
        SELECT * FROM unnest(outline_execution, outline_block, outline_data)
        ON CONFLICT (execution, block) DO UPDATE SET data = excluded.data;
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
