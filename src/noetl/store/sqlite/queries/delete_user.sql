DELETE FROM account WHERE name = ? RETURNING name
