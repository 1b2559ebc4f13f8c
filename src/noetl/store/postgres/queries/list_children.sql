SELECT id, name, path, status, started, ended, digest, parent, local FROM execution
WHERE parent = %s AND ended IS NULL ORDER BY id
