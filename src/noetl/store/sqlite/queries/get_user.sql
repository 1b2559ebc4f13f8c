SELECT name, role, password, created FROM user WHERE name = ?
