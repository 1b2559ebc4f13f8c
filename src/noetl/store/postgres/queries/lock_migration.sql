SELECT pg_advisory_xact_lock(hashtextextended('noetl schema ' || %s::text, 0))
