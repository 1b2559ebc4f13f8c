SELECT id, name, path, status, started, ended, digest, parent, local FROM execution
WHERE parent = ? AND ended IS NULL ORDER BY id
