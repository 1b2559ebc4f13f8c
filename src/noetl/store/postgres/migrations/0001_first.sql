-- The tables of a SQLite file in the types of Postgres. Migrations of one number bring the same to both.

-- The truth. Keyed by execution and seq, so a second writer of a seq is refused by the key itself.
CREATE TABLE event (
    execution uuid NOT NULL,
    seq       bigint NOT NULL,  -- 1, 2, 3 ... without gaps
    type      text NOT NULL,
    at        float8 NOT NULL,  -- seconds since 1970
    data      bytea NOT NULL,   -- JSON, as bytes: text can't hold \u0000, and json would be parsed at each write
    hash      bytea NOT NULL,   -- over this row and the hash of the row before it
    PRIMARY KEY (execution, seq)
);

-- What lists show: a cache of the fold, written when a status changes.
CREATE TABLE execution (
    id      uuid PRIMARY KEY,
    name    text NOT NULL,
    path    text NOT NULL,
    status  text NOT NULL,
    started float8 NOT NULL,
    ended   float8,
    digest  text NOT NULL,
    parent  uuid,
    local   boolean NOT NULL    -- a process of its own runs it, and servers leave it alone
);
CREATE INDEX execution_by_status ON execution (status, id);
CREATE INDEX execution_open_by_parent ON execution (parent, id) WHERE ended IS NULL AND parent IS NOT NULL;
CREATE INDEX execution_by_end ON execution (ended, id) WHERE ended IS NOT NULL;

-- The latest stored state of an execution: a cache of the fold that bounds recovery.
CREATE TABLE snapshot (
    execution uuid PRIMARY KEY,
    seq       bigint NOT NULL,
    hash      bytea NOT NULL,
    data      bytea NOT NULL
);

CREATE TABLE playbook (
    digest text PRIMARY KEY,
    file   text NOT NULL,
    text   bytea NOT NULL
);

-- Content by its hash. `at` is when it was last brought, give or take an hour: what is younger than a day stays.
CREATE TABLE blob (
    key  text PRIMARY KEY,
    data bytea NOT NULL,
    at   float8 NOT NULL
);
ALTER TABLE blob ALTER data SET STORAGE EXTERNAL; -- to compress megabytes takes longer than to write them

-- Output of tasks, as bytes: it may hold zeros, which text can't.
CREATE TABLE log (
    number    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    execution uuid NOT NULL,
    task      text NOT NULL,
    at        float8 NOT NULL,
    stream    text NOT NULL,
    line      bytea NOT NULL
);
CREATE INDEX log_by_execution ON log (execution, number);
