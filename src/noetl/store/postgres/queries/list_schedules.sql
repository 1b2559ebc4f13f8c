SELECT data FROM schedule WHERE name > %s ORDER BY name LIMIT %s
