-- Since when each run waits for a worker. An execution that waited before this migration counts from now.

CREATE TABLE queued (
    execution BLOB NOT NULL,
    run       TEXT NOT NULL,
    pool      TEXT NOT NULL,
    at        REAL NOT NULL DEFAULT (unixepoch('subsec')),
    PRIMARY KEY (execution, run)
) STRICT, WITHOUT ROWID;
INSERT INTO queued (execution, run, pool) SELECT execution, run, pool FROM ready;
DROP TABLE ready;
ALTER TABLE queued RENAME TO ready;
CREATE INDEX ready_by_pool ON ready (pool, execution);
