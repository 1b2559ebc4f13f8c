SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'schema'
