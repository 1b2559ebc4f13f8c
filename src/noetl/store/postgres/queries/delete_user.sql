DELETE FROM account WHERE name = %s RETURNING name
