INSERT INTO idempotency (scope, key, answer, at) VALUES (?, ?, ?, coalesce(?, unixepoch('subsec')))
ON CONFLICT (scope, key) DO NOTHING RETURNING key
