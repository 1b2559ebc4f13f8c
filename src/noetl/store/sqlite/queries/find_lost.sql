SELECT lease.execution, lease.fence
FROM worker_session AS session
JOIN lease ON lease.worker = session.worker
JOIN execution ON execution.id = lease.execution
WHERE max(session.beat, lease.since) + lease.ttl < coalesce(?, unixepoch('subsec')) AND NOT execution.local
ORDER BY max(session.beat, lease.since) + lease.ttl, lease.execution, lease.fence LIMIT ?
