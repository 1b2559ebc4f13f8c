-- How many tables the schema has, and whether one of them is ours; no row if there is no schema.
SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = pg_namespace.oid AND relkind IN ('r', 'p')),
    EXISTS (SELECT FROM pg_class WHERE relnamespace = pg_namespace.oid AND relkind = 'r' AND relname = 'meta')
FROM pg_namespace WHERE nspname = %s
