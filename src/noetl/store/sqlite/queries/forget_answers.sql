DELETE FROM idempotency WHERE at < ?
