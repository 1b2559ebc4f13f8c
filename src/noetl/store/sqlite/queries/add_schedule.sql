INSERT INTO schedule (name, id, revision, look, data) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING name
