INSERT INTO blob (key, data) VALUES (?, ?)
ON CONFLICT (key) DO UPDATE SET at = excluded.at
