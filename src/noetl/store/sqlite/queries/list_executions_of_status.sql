SELECT id, name, path, status, started, ended, digest, parent, local FROM execution
WHERE status = ? AND id BETWEEN ? AND ? ORDER BY id DESC LIMIT ?
