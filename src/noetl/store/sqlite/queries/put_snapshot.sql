INSERT INTO snapshot (execution, seq, hash, data) VALUES (?, ?, ?, ?)
ON CONFLICT (execution) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, data = excluded.data
