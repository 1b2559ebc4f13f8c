SELECT name, role, password, created FROM account WHERE name = ?
