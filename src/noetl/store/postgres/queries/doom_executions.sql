INSERT INTO removal (execution)
SELECT id FROM execution
WHERE ended < %s
AND NOT EXISTS (SELECT FROM execution AS above WHERE above.id = execution.parent AND above.ended IS NULL)
AND NOT EXISTS (SELECT FROM execution AS below WHERE below.parent = execution.id AND below.ended IS NULL)
ORDER BY ended, id LIMIT %s
ON CONFLICT DO NOTHING RETURNING execution
