SELECT id, name, path, status, started, ended, digest, parent FROM execution
WHERE id BETWEEN ? AND ? ORDER BY id DESC LIMIT ?
