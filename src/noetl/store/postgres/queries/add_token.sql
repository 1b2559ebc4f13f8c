INSERT INTO token (id, hash, role, name, created, pool, expires, revoked) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
