SELECT id, (SELECT max(seq) FROM event WHERE event.execution = execution.id) FROM execution
WHERE status IN ('running', 'waiting') AND NOT local AND digest IN (SELECT value FROM json_each(?))
ORDER BY id
