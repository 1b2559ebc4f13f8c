SELECT id, hash, role, name, created, pool, expires, revoked FROM token WHERE hash = %s
