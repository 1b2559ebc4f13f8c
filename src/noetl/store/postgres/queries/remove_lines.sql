DELETE FROM log WHERE number IN (
    SELECT number FROM log WHERE execution IN (SELECT execution FROM removal) LIMIT %s
)
