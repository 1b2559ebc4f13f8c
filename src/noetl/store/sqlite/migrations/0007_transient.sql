-- The variables of classic playbooks, for people who look with SQL. Made from the log: the last write of a name counts.
CREATE VIEW transient AS
SELECT
    lower(substr(id, 1, 8) || '-' || substr(id, 9, 4) || '-' || substr(id, 13, 4) || '-' || substr(id, 17, 4) || '-'
        || substr(id, 21)) AS execution_id,
    name,
    value,                      -- JSON; {"$ref": ...} stands for a value that is stored apart
    seq,
    at
FROM (
    SELECT
        hex(event.execution) AS id,
        variable.key AS name,
        json_extract(patch.value, '$[2]') -> ('$."' || replace(variable.key, '"', '\"') || '"') AS value,
        event.seq AS seq,
        event.at AS at,
        row_number() OVER (
            PARTITION BY event.execution, variable.key ORDER BY event.seq DESC, patch.key DESC
        ) AS place
    FROM event,
        json_each(CAST(event.data AS TEXT), '$.set_ctx') AS patch,
        json_each(patch.value, '$[2]') AS variable
    WHERE event.type = 'task.done'
        AND json_extract(patch.value, '$[0]') = 'vars'
        AND json_extract(patch.value, '$[1]') = '$merge'
        AND variable.key <> '$ref'
)
WHERE place = 1;
