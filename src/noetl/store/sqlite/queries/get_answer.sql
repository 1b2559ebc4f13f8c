SELECT answer FROM idempotency WHERE scope = ? AND key = ?
