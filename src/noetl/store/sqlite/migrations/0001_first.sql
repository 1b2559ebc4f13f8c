-- The truth. Keyed by execution and seq, so a second writer of a seq is refused by the key itself. The rows of one
-- execution lie side by side, and there is no other index to keep.
CREATE TABLE event (
    execution BLOB NOT NULL,    -- the 16 bytes of a uuid7, so newer ones sort later
    seq       INTEGER NOT NULL, -- 1, 2, 3 ... without gaps
    type      TEXT NOT NULL,    -- as text: a code would save 90 bytes a step of 1,100 and need a table to be read with
    at        REAL NOT NULL,    -- seconds since 1970
    data      BLOB NOT NULL,    -- JSON
    hash      BLOB NOT NULL,    -- over this row and the hash of the row before it
    PRIMARY KEY (execution, seq)
) STRICT, WITHOUT ROWID;

-- What lists show: a cache of the fold, written when a status changes.
CREATE TABLE execution (
    id      BLOB PRIMARY KEY,
    name    TEXT NOT NULL,
    path    TEXT NOT NULL,
    status  TEXT NOT NULL,
    started REAL NOT NULL,
    ended   REAL,
    digest  TEXT NOT NULL,
    parent  BLOB
) STRICT, WITHOUT ROWID;
CREATE INDEX execution_by_status ON execution (status, id);

-- The latest stored state of an execution: a cache of the fold that bounds recovery.
CREATE TABLE snapshot (
    execution BLOB PRIMARY KEY,
    seq       INTEGER NOT NULL,
    hash      BLOB NOT NULL,
    data      BLOB NOT NULL
) STRICT;

CREATE TABLE playbook (
    digest TEXT PRIMARY KEY,
    file   TEXT NOT NULL,
    text   BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Content by its hash. `at` is when it was last needed: what is younger than a day is never removed.
CREATE TABLE blob (
    key  TEXT PRIMARY KEY,
    data BLOB NOT NULL,
    at   REAL NOT NULL DEFAULT (unixepoch('subsec'))
) STRICT;

-- Output of tasks.
CREATE TABLE log (
    number    INTEGER PRIMARY KEY,
    execution BLOB NOT NULL,
    task      TEXT NOT NULL,
    at        REAL NOT NULL,
    stream    TEXT NOT NULL,
    line      TEXT NOT NULL
) STRICT;
CREATE INDEX log_by_execution ON log (execution, number);
