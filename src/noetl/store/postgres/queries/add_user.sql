INSERT INTO account (name, role, password, created) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING RETURNING name
