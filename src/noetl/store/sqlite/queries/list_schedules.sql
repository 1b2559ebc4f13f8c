SELECT data FROM schedule WHERE name > ? ORDER BY name LIMIT ?
