SELECT answer FROM idempotency WHERE scope = %s AND key = %s
