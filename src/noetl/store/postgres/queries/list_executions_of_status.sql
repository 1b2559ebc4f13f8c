SELECT id, name, path, status, started, ended, digest, parent, local FROM execution
WHERE status = %s AND id BETWEEN %s AND %s ORDER BY id DESC LIMIT %s
