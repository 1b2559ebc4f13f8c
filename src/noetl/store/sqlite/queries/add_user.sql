INSERT INTO user (name, role, password, created) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING name
