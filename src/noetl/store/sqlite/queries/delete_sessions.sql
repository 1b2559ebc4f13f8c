DELETE FROM session WHERE account = ? RETURNING id
