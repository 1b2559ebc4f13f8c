WITH RECURSIVE asked (execution, key) AS (
    SELECT %s::uuid, %s::text
), whole (key) AS (
    SELECT key FROM asked
    UNION
    SELECT blob_part.whole FROM blob_part JOIN whole ON blob_part.part = whole.key
)
SELECT EXISTS (
    SELECT FROM whole JOIN blob_use ON blob_use.key = whole.key WHERE blob_use.execution = (SELECT execution FROM asked)
)
