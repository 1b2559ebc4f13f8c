-- Parts of the fold as rows, written in the transaction of the events that changed them, so that work, lost workers and
-- due timers of any execution are found without folding its log. `noetl verify` compares them with the fold.

-- Runs that a worker may take.
CREATE TABLE ready (
    execution BLOB NOT NULL,
    run       TEXT NOT NULL,
    pool      TEXT NOT NULL,
    PRIMARY KEY (execution, run)
) STRICT, WITHOUT ROWID;
CREATE INDEX ready_by_pool ON ready (pool, execution);

-- Work in a worker's hands.
CREATE TABLE lease (
    execution BLOB NOT NULL,
    fence     INTEGER NOT NULL,
    run       TEXT NOT NULL,
    worker    TEXT NOT NULL,
    since     REAL NOT NULL,
    PRIMARY KEY (execution, fence)
) STRICT, WITHOUT ROWID;

CREATE TABLE timer (
    execution BLOB NOT NULL,
    name      TEXT NOT NULL,
    due       REAL NOT NULL,
    PRIMARY KEY (execution, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX timer_by_due ON timer (due);
