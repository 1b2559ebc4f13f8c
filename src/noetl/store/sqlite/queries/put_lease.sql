INSERT INTO lease (execution, fence, run, worker, since) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (execution, fence) DO UPDATE SET run = excluded.run, worker = excluded.worker, since = excluded.since
