UPDATE user SET role = ?, password = ? WHERE name = ? RETURNING name
