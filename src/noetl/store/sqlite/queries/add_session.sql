INSERT INTO session (id, hash, user, created, seen, expires, agent, address) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
