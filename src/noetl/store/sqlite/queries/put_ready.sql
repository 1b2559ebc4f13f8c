INSERT INTO ready (execution, run, pool) VALUES (?, ?, ?)
ON CONFLICT (execution, run) DO UPDATE SET pool = excluded.pool
