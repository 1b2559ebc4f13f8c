SELECT lease.execution, lease.fence
FROM lease
JOIN execution ON execution.id = lease.execution
LEFT JOIN worker_session AS session ON session.worker = lease.worker
WHERE greatest(session.beat, lease.since) + lease.ttl < coalesce(%s, extract(epoch FROM clock_timestamp())::float8)
AND lease.ttl < %s AND NOT execution.local
ORDER BY greatest(session.beat, lease.since) + lease.ttl, lease.execution, lease.fence LIMIT %s
