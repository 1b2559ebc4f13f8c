-- The past of a long execution without folding its log: several snapshots, and an outline in blocks of 1,000 events.
-- Lists show what each execution does, and find forks by their source.

CREATE TABLE snapshots (
    execution BLOB NOT NULL,
    seq       INTEGER NOT NULL,
    hash      BLOB NOT NULL,
    data      BLOB NOT NULL,
    PRIMARY KEY (execution, seq)
) STRICT;
INSERT INTO snapshots SELECT execution, seq, hash, data FROM snapshot;
DROP TABLE snapshot;
ALTER TABLE snapshots RENAME TO snapshot;

-- A pure function of the log, written in the commit that completes the block.
CREATE TABLE outline (
    execution BLOB NOT NULL,
    block     INTEGER NOT NULL, -- 0 for the events 1 to 1,000
    data      BLOB NOT NULL,
    PRIMARY KEY (execution, block)
) STRICT, WITHOUT ROWID;

ALTER TABLE execution ADD COLUMN source BLOB;                        -- the execution from which it was forked
ALTER TABLE execution ADD COLUMN activity TEXT NOT NULL DEFAULT '';  -- one sentence
ALTER TABLE execution ADD COLUMN waits TEXT NOT NULL DEFAULT '';     -- the kinds of its waits, each between spaces
ALTER TABLE execution ADD COLUMN details BLOB NOT NULL DEFAULT x'7b7d'; -- JSON
CREATE INDEX execution_by_source ON execution (source, started, id) WHERE source IS NOT NULL;
