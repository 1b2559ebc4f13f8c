-- When the lease was granted by the clock of the database, by which it expires; `since` is of the clock of a server.
ALTER TABLE lease ADD COLUMN granted REAL NOT NULL DEFAULT 0;
UPDATE lease SET granted = unixepoch('subsec');
