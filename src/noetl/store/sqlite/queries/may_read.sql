WITH RECURSIVE whole (key) AS (
    SELECT ?2
    UNION
    SELECT blob_part.whole FROM blob_part JOIN whole ON blob_part.part = whole.key
)
SELECT EXISTS (
    SELECT 1 FROM whole
    JOIN blob_use ON blob_use.key = whole.key
    JOIN lease ON lease.execution = blob_use.execution
    WHERE substr(lease.worker, -length(?1)) = ?1
) OR EXISTS (
    SELECT 1 FROM lease JOIN execution ON execution.id = lease.execution
    WHERE execution.digest = ?2 AND substr(lease.worker, -length(?1)) = ?1
)
