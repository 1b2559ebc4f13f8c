SELECT lease.execution, lease.fence
FROM worker_session AS session
JOIN lease ON lease.worker = session.worker
JOIN execution ON execution.id = lease.execution
WHERE greatest(session.beat, lease.since) + lease.ttl < coalesce(%s, extract(epoch FROM clock_timestamp())::float8)
AND NOT execution.local
ORDER BY greatest(session.beat, lease.since) + lease.ttl, lease.execution, lease.fence LIMIT %s
