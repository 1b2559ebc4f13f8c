SELECT id, hash, account, created, seen, expires, agent, address FROM session WHERE hash = ?
