SELECT lease.execution, lease.fence
FROM lease
JOIN execution ON execution.id = lease.execution
LEFT JOIN worker_session AS session ON session.worker = lease.worker
WHERE max(coalesce(session.beat, 0), lease.since) + lease.ttl < coalesce(?, unixepoch('subsec'))
AND lease.ttl < ? AND NOT execution.local
ORDER BY max(coalesce(session.beat, 0), lease.since) + lease.ttl, lease.execution, lease.fence LIMIT ?
