WITH RECURSIVE asked (worker, key) AS (
    SELECT %s::text, %s::text
), whole (key) AS (
    SELECT key FROM asked
    UNION
    SELECT blob_part.whole FROM blob_part JOIN whole ON blob_part.part = whole.key
)
SELECT EXISTS (
    SELECT FROM whole
    JOIN blob_use ON blob_use.key = whole.key
    JOIN lease ON lease.execution = blob_use.execution, asked
    WHERE right(lease.worker, length(asked.worker)) = asked.worker
) OR EXISTS (
    SELECT FROM lease
    JOIN execution ON execution.id = lease.execution, asked
    WHERE execution.digest = asked.key AND right(lease.worker, length(asked.worker)) = asked.worker
)
