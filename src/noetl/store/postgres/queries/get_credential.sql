SELECT name, kind, sealed, created, updated, paths, pools FROM credential WHERE name = %s
