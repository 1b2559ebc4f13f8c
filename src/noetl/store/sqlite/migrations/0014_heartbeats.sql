-- Counts the heartbeats of a process, so that one that was overtaken or arrives twice is known on every server.

ALTER TABLE worker_session ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
