DELETE FROM idempotency WHERE at < %s
