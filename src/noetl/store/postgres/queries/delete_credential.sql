DELETE FROM credential WHERE name = %s RETURNING name
