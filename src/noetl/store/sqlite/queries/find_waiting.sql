SELECT DISTINCT ready.execution FROM ready JOIN execution ON execution.id = ready.execution
WHERE ready.pool = ? AND ready.execution > ? AND NOT execution.local AND execution.status <> 'paused'
ORDER BY ready.execution LIMIT ?
