INSERT INTO playbook (digest, file, text) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING
