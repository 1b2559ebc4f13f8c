DELETE FROM hook WHERE name = %s RETURNING name
