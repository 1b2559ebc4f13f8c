WITH gone AS (
    DELETE FROM blob WHERE key IN (
        SELECT key FROM blob
        WHERE NOT EXISTS (SELECT FROM blob_use WHERE blob_use.key = blob.key)
        AND NOT EXISTS (SELECT FROM blob_part WHERE blob_part.part = blob.key)
        AND at < %s LIMIT %s
    ) RETURNING key
), parts AS (
    DELETE FROM blob_part WHERE whole IN (SELECT key FROM gone)
)
SELECT count(*) FROM gone
