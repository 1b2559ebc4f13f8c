INSERT INTO lease (execution, fence, run, worker, since, ttl) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (execution, fence) DO UPDATE
SET run = excluded.run, worker = excluded.worker, since = excluded.since, ttl = excluded.ttl
