SELECT pg_try_advisory_lock(%s)
