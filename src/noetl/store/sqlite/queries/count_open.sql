SELECT status, count(*) FROM execution
WHERE status IN ('pending', 'running', 'waiting', 'paused', 'cancelling')
GROUP BY status
