UPDATE account SET role = ?, password = ? WHERE name = ? RETURNING name
