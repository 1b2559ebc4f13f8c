DELETE FROM execution WHERE id IN (SELECT execution FROM removal)
