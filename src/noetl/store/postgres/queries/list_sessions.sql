SELECT id, hash, account, created, seen, expires, agent, address FROM session
WHERE %s::text IS NULL OR account = %s ORDER BY created DESC, id DESC
