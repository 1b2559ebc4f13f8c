SELECT id, (SELECT max(seq) FROM event WHERE event.execution = execution.id) FROM execution
WHERE status IN ('running', 'waiting') AND NOT local AND digest IN (SELECT json_array_elements_text(%s::json))
ORDER BY id
