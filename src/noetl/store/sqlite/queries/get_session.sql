SELECT id, hash, user, created, seen, expires, agent, address FROM session WHERE hash = ?
