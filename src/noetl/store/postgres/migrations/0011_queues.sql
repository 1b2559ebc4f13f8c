-- Since when each run waits for a worker. An execution that waited before this migration counts from now.

ALTER TABLE ready ADD COLUMN at float8 NOT NULL DEFAULT extract(epoch FROM clock_timestamp());
