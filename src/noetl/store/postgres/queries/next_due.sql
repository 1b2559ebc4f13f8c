SELECT timer.due FROM timer JOIN execution ON execution.id = timer.execution
WHERE NOT execution.local AND execution.status <> 'paused'
ORDER BY timer.due LIMIT 1
