-- Lists of executions are in the order of their start, and count the errors that policies continued past.

ALTER TABLE execution ADD COLUMN continued_errors INTEGER NOT NULL DEFAULT 0;
CREATE INDEX execution_by_start ON execution (started, id);
CREATE INDEX execution_by_parent ON execution (parent, started, id) WHERE parent IS NOT NULL;
DROP INDEX execution_by_status;
CREATE INDEX execution_by_status ON execution (status, started, id);
