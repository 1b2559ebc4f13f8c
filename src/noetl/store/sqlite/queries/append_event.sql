INSERT INTO event (execution, seq, type, at, data, hash) VALUES (?, ?, ?, ?, ?, ?)
