SELECT id, hash, user, created, seen, expires, agent, address FROM session
WHERE ? IS NULL OR user = ? ORDER BY created DESC, id DESC
