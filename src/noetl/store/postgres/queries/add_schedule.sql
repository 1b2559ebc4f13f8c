INSERT INTO schedule (name, id, revision, look, data) VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING RETURNING name
