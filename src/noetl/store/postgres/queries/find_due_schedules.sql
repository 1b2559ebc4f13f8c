SELECT data FROM schedule WHERE look <= %s ORDER BY look, name LIMIT %s
