SELECT name, kind, sealed, created, updated, paths, pools FROM credential ORDER BY name
