UPDATE token SET revoked = %s WHERE id = %s AND revoked IS NULL RETURNING id
