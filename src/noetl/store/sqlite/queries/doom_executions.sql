INSERT OR IGNORE INTO removal (execution)
SELECT id FROM execution
WHERE ended < ?
AND NOT EXISTS (SELECT 1 FROM execution AS above WHERE above.id = execution.parent AND above.ended IS NULL)
AND NOT EXISTS (SELECT 1 FROM execution AS below WHERE below.parent = execution.id AND below.ended IS NULL)
ORDER BY ended, id LIMIT ?
RETURNING execution
