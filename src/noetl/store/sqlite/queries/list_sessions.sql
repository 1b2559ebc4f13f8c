SELECT id, hash, account, created, seen, expires, agent, address FROM session
WHERE ? IS NULL OR account = ? ORDER BY created DESC, id DESC
