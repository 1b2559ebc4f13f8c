WITH asked AS (SELECT %s::text COLLATE "C" AS prefix, %s::text COLLATE "C" AS after)
SELECT DISTINCT path FROM catalog, asked
WHERE path >= asked.prefix AND starts_with(path, asked.prefix) AND path > asked.after
ORDER BY path LIMIT %s
