SELECT child.id FROM execution AS child
WHERE child.ended IS NULL AND child.parent IS NOT NULL AND NOT child.local
AND NOT EXISTS (SELECT 1 FROM execution AS above WHERE above.id = child.parent AND above.ended IS NULL)
ORDER BY child.id LIMIT %s
