-- Lists of executions by path, by what they wait for and without children; counts by status and path.

CREATE INDEX execution_top ON execution (started, id) WHERE parent IS NULL;
CREATE INDEX execution_by_path ON execution (path, started, id);
CREATE INDEX execution_by_waits ON execution (started, id) WHERE waits <> '';
DROP INDEX execution_by_status;
CREATE INDEX execution_by_status ON execution (status, started, id, parent, path);
