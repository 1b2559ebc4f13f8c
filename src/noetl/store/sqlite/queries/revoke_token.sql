UPDATE token SET revoked = ? WHERE id = ? AND revoked IS NULL RETURNING id
