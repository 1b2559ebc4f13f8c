SELECT name, path, version, created, updated FROM hook WHERE name = %s
