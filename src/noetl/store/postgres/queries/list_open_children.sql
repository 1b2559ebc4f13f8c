SELECT id FROM execution WHERE parent IS NOT NULL AND ended IS NULL ORDER BY parent, id
