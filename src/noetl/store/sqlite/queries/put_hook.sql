INSERT INTO hook (name, path, version, created, updated) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET path = excluded.path, version = excluded.version, updated = excluded.updated
