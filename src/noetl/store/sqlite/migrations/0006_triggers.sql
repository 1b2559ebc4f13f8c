-- What starts executions without anybody asking.
CREATE TABLE schedule (
    name     TEXT PRIMARY KEY,
    id       TEXT NOT NULL,    -- drawn when it was made: another one of the same name is another schedule
    revision INTEGER NOT NULL, -- each change is made at the revision it was made from
    look     REAL,             -- when a server has to look at it; NULL: never
    data     BLOB NOT NULL     -- JSON: all of it
) STRICT, WITHOUT ROWID;
CREATE INDEX schedule_by_look ON schedule (look, name) WHERE look IS NOT NULL;

-- Names under which signed requests start a playbook. The secrets are credentials.
CREATE TABLE hook (
    name    TEXT PRIMARY KEY,
    path    TEXT NOT NULL,
    version INTEGER,
    created REAL NOT NULL,
    updated REAL NOT NULL
) STRICT, WITHOUT ROWID;
