SELECT lease.execution, lease.fence, lease.since, execution.status = 'paused'
FROM lease
JOIN execution ON execution.id = lease.execution
WHERE lease.worker = %s AND NOT execution.local
ORDER BY lease.execution, lease.fence
