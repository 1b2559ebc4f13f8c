INSERT INTO log (execution, task, at, stream, line) VALUES (?, ?, ?, ?, ?)
