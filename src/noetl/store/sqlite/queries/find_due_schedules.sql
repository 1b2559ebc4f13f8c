SELECT data FROM schedule WHERE look <= ? ORDER BY look, name LIMIT ?
