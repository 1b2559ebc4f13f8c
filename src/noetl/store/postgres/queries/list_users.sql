SELECT name, role, password, created FROM account ORDER BY name
