-- Who may ask a server for what. Only hashes: nothing here opens a door.
CREATE TABLE token (
    id      TEXT PRIMARY KEY,
    hash    BLOB NOT NULL UNIQUE, -- SHA-256 of the token
    role    TEXT NOT NULL,
    name    TEXT NOT NULL,
    created REAL NOT NULL,
    pool    TEXT,                 -- of a worker's token: the only pool it may work for
    expires REAL,
    revoked REAL
) STRICT, WITHOUT ROWID;

CREATE TABLE account (
    name     TEXT PRIMARY KEY,
    role     TEXT NOT NULL,
    password TEXT NOT NULL, -- argon2id
    created  REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE session (
    id      TEXT PRIMARY KEY,
    hash    BLOB NOT NULL UNIQUE, -- SHA-256 of the cookie
    account TEXT NOT NULL,
    created REAL NOT NULL,
    seen    REAL NOT NULL,
    expires REAL NOT NULL,
    agent   TEXT NOT NULL,
    address TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX session_by_account ON session (account);
