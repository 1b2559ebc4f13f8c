DELETE FROM session WHERE account = %s RETURNING id
