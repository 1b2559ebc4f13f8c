SELECT id, name, path, status, started, ended, digest, parent, local FROM execution
WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT ?
