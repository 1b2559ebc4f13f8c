-- Another process may have added some meanwhile, whose events are still to go.
DELETE FROM removal
WHERE NOT EXISTS (SELECT 1 FROM event WHERE event.execution = removal.execution)
AND NOT EXISTS (SELECT 1 FROM log WHERE log.execution = removal.execution)
