DELETE FROM lease WHERE execution IN (SELECT execution FROM removal)
