SELECT DISTINCT digest FROM execution
WHERE status IN ('running', 'waiting') AND NOT local ORDER BY digest
