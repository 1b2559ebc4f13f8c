SELECT timer.execution, timer.name FROM timer JOIN execution ON execution.id = timer.execution
WHERE timer.due <= %s AND NOT execution.local AND execution.status <> 'paused'
ORDER BY timer.due, timer.execution, timer.name LIMIT %s
