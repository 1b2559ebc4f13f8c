DELETE FROM ready WHERE execution IN (SELECT execution FROM removal)
