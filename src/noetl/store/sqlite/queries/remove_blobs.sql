DELETE FROM blob WHERE key IN (
    SELECT key FROM blob
    WHERE NOT EXISTS (SELECT 1 FROM blob_use WHERE blob_use.key = blob.key)
    AND NOT EXISTS (SELECT 1 FROM blob_part WHERE blob_part.part = blob.key)
    AND at < ? LIMIT ?
) RETURNING key
