SELECT name, role, password, created FROM user ORDER BY name
