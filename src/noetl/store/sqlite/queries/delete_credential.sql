DELETE FROM credential WHERE name = ? RETURNING name
