DELETE FROM schedule WHERE name = ? RETURNING name
