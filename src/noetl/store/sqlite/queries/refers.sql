WITH RECURSIVE whole (key) AS (
    SELECT ?2
    UNION
    SELECT blob_part.whole FROM blob_part JOIN whole ON blob_part.part = whole.key
)
SELECT EXISTS (
    SELECT 1 FROM whole JOIN blob_use ON blob_use.key = whole.key WHERE blob_use.execution = ?1
)
