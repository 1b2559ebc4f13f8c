-- Credentials. `sealed` can be opened only with the master key, which is never here, and only as long as name, kind,
-- paths and pools are what they were when it was sealed.
CREATE TABLE credential (
    name    text COLLATE "C" PRIMARY KEY,
    kind    text NOT NULL,
    sealed  bytea NOT NULL,
    created float8 NOT NULL,
    updated float8 NOT NULL,
    paths   text NOT NULL,      -- JSON lists of patterns: the playbooks and pools that may use it; empty means all
    pools   text NOT NULL
);
