-- From the end of a log to its start: what is left of one is a sound log that is shorter.
DELETE FROM event WHERE (execution, seq) IN (
    SELECT execution, seq FROM event WHERE execution IN (SELECT execution FROM removal)
    ORDER BY execution DESC, seq DESC LIMIT %s
)
