SELECT DISTINCT ready.execution FROM ready JOIN execution ON execution.id = ready.execution
WHERE ready.pool = %s AND ready.execution > %s AND NOT execution.local AND execution.status <> 'paused'
ORDER BY ready.execution LIMIT %s
