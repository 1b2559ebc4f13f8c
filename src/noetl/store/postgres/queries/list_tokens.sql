SELECT id, hash, role, name, created, pool, expires, revoked FROM token ORDER BY created, id
