INSERT INTO idempotency (scope, key, answer, at)
VALUES (%s, %s, %s, coalesce(%s, extract(epoch FROM clock_timestamp())::float8))
ON CONFLICT (scope, key) DO NOTHING RETURNING key
