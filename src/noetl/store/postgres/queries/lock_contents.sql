-- Nobody brings content or refers to some while what is unused is removed.
SELECT pg_advisory_xact_lock(%s)
