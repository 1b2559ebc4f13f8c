SELECT data FROM schedule WHERE name = ?
