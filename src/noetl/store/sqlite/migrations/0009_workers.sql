-- What an operator has told a worker: nothing, `drain` or `stop`. A new process of that name starts without it.

ALTER TABLE worker_session ADD COLUMN directive TEXT NOT NULL DEFAULT '';
