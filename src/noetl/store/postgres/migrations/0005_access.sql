-- Who may ask a server for what. Only hashes: nothing here opens a door.
CREATE TABLE token (
    id      text COLLATE "C" PRIMARY KEY,
    hash    bytea NOT NULL UNIQUE, -- SHA-256 of the token
    role    text NOT NULL,
    name    text NOT NULL,
    created float8 NOT NULL,
    pool    text,                 -- of a worker's token: the only pool it may work for
    expires float8,
    revoked float8
);

CREATE TABLE account (
    name     text COLLATE "C" PRIMARY KEY,
    role     text NOT NULL,
    password text NOT NULL, -- argon2id
    created  float8 NOT NULL
);

CREATE TABLE session (
    id      text COLLATE "C" PRIMARY KEY,
    hash    bytea NOT NULL UNIQUE, -- SHA-256 of the cookie
    account text NOT NULL,
    created float8 NOT NULL,
    seen    float8 NOT NULL,
    expires float8 NOT NULL,
    agent   text NOT NULL,
    address text NOT NULL
);
CREATE INDEX session_by_account ON session (account);
