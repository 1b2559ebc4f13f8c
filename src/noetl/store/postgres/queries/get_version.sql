SELECT value::bigint FROM meta WHERE key = 'schema'
