DELETE FROM worker_session
WHERE beat < %s AND NOT EXISTS (SELECT 1 FROM lease WHERE lease.worker = worker_session.worker)
