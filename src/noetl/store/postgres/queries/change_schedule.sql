UPDATE schedule SET revision = %s, look = %s, data = %s WHERE name = %s AND id = %s AND revision = %s RETURNING name
