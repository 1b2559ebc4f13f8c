-- What servers need, and what it takes to remove what is old.

-- 1: a process of its own runs it, and servers leave it alone. Until now there was nothing else.
ALTER TABLE execution ADD COLUMN local INTEGER NOT NULL DEFAULT 0;
UPDATE execution SET local = 1;
CREATE INDEX execution_open_by_parent ON execution (parent, id) WHERE ended IS NULL AND parent IS NOT NULL;
CREATE INDEX execution_by_end ON execution (ended, id) WHERE ended IS NOT NULL;

-- Seconds after the worker was last heard at which the lease is over.
ALTER TABLE lease ADD COLUMN ttl REAL NOT NULL DEFAULT 30;
CREATE INDEX lease_by_worker ON lease (worker);

-- Workers, as they were last heard.
CREATE TABLE worker_session (
    worker  TEXT PRIMARY KEY,
    pool    TEXT NOT NULL,
    slots   INTEGER NOT NULL,
    host    TEXT NOT NULL,
    started REAL NOT NULL,
    beat    REAL NOT NULL,
    leases  TEXT NOT NULL, -- JSON: the fences it says it holds, by execution
    version TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Which contents the events of an execution need, and which contents a content itself refers to. What is in neither
-- can be removed.
CREATE TABLE blob_use (
    execution BLOB NOT NULL,
    key       TEXT NOT NULL,
    PRIMARY KEY (execution, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_use_by_key ON blob_use (key);
CREATE TABLE blob_part (
    whole TEXT NOT NULL,
    part  TEXT NOT NULL,
    PRIMARY KEY (whole, part)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_part_by_part ON blob_part (part);
-- Nobody has noted who uses what is here by now: it stays, as a part of nothing.
INSERT INTO blob_part (whole, part) SELECT '', key FROM blob;

-- Executions that are being removed: out of the lists, but with rows left.
CREATE TABLE removal (
    execution BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- Versions of playbooks by path. `turn` counts registrations: the highest is what the path means.
CREATE TABLE catalog (
    path       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    digest     TEXT NOT NULL,
    label      TEXT NOT NULL,
    registered REAL NOT NULL,
    turn       INTEGER NOT NULL,
    PRIMARY KEY (path, version),
    UNIQUE (path, digest)
) STRICT, WITHOUT ROWID;

-- Answers to requests that may be sent twice.
CREATE TABLE idempotency (
    scope  TEXT NOT NULL,
    key    TEXT NOT NULL,
    answer BLOB NOT NULL,
    at     REAL NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_time ON idempotency (at);
