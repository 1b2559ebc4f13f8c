INSERT INTO session (id, hash, account, created, seen, expires, agent, address) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
