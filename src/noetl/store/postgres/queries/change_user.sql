UPDATE account SET role = %s, password = %s WHERE name = %s RETURNING name
