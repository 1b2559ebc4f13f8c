INSERT INTO account (name, role, password, created) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING name
