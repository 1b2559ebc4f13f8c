-- Who registers under one path goes one after the other.
SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))
