INSERT OR IGNORE INTO playbook (digest, file, text) VALUES (?, ?, ?)
