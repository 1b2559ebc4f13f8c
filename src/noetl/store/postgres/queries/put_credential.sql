INSERT INTO credential (name, kind, sealed, created, updated, paths, pools) VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (name) DO UPDATE
SET kind = excluded.kind, sealed = excluded.sealed, updated = excluded.updated, paths = excluded.paths,
    pools = excluded.pools
