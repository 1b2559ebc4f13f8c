-- Credentials. `sealed` can be opened only with the master key, which is never here, and only as long as name, kind,
-- paths and pools are what they were when it was sealed.
CREATE TABLE credential (
    name    TEXT PRIMARY KEY,
    kind    TEXT NOT NULL,
    sealed  BLOB NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    paths   TEXT NOT NULL, -- JSON lists of patterns: the playbooks and the pools that may use it; empty means all
    pools   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
