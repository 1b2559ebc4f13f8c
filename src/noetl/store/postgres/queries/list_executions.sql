SELECT id, name, path, status, started, ended, digest, parent, local FROM execution
WHERE id BETWEEN %s AND %s ORDER BY id DESC LIMIT %s
