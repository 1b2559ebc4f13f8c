-- What starts executions without anybody asking.
CREATE TABLE schedule (
    name     text COLLATE "C" PRIMARY KEY,
    id       text NOT NULL,    -- drawn when it was made: another one of the same name is another schedule
    revision bigint NOT NULL,  -- each change is made at the revision it was made from
    look     float8,           -- when a server has to look at it; NULL: never
    data     bytea NOT NULL    -- JSON: all of it; as bytes, since text can't hold \u0000
);
CREATE INDEX schedule_by_look ON schedule (look, name) WHERE look IS NOT NULL;

-- Names under which signed requests start a playbook. The secrets are credentials.
CREATE TABLE hook (
    name    text COLLATE "C" PRIMARY KEY,
    path    text NOT NULL,
    version bigint,
    created float8 NOT NULL,
    updated float8 NOT NULL
);
