DELETE FROM schedule WHERE name = %s RETURNING name
