INSERT OR REPLACE INTO execution (id, name, path, status, started, ended, digest, parent, local)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
