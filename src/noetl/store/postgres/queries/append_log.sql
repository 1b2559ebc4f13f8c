INSERT INTO log (execution, task, at, stream, line)
SELECT execution, task, at, stream, line
FROM unnest(%s::uuid[], %s::text[], %s::float8[], %s::text[], %s::bytea[])
    WITH ORDINALITY AS lines (execution, task, at, stream, line, place)
ORDER BY place
