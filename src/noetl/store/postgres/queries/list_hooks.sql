SELECT name, path, version, created, updated FROM hook ORDER BY name
