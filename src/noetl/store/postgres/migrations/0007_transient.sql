-- The variables of classic playbooks, for people who look with SQL. Made from the log: the last write of a name counts.
-- Postgres has no text with the character 0: U+FFFD stands in its place.
CREATE VIEW transient AS
SELECT DISTINCT ON (event.execution, variable.key)
    event.execution AS execution_id,
    variable.key AS name,
    variable.value AS value,    -- JSON; {"$ref": ...} stands for a value that is stored apart
    event.seq AS seq,
    event.at AS at
FROM event
CROSS JOIN LATERAL json_array_elements(
    CASE WHEN event.type = 'task.done' THEN
        regexp_replace(convert_from(event.data, 'UTF8'), '(?<!\\)((\\\\)*)\\u0000', '\1\\ufffd', 'g')::json -> 'set_ctx'
    END
) WITH ORDINALITY AS patch (write, place)
CROSS JOIN LATERAL json_each(
    CASE WHEN patch.write ->> 0 = 'vars' AND patch.write ->> 1 = '$merge' THEN patch.write -> 2 END
) AS variable
WHERE event.type = 'task.done' AND variable.key <> '$ref'
ORDER BY event.execution, variable.key, event.seq DESC, patch.place DESC;
