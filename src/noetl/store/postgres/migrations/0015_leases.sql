-- When the lease was granted by the clock of the database, by which it expires; `since` is of the clock of a server.
ALTER TABLE lease ADD COLUMN granted float8 NOT NULL DEFAULT extract(epoch FROM clock_timestamp())::float8;
