DELETE FROM session WHERE user = ? RETURNING id
