DELETE FROM timer WHERE execution IN (SELECT execution FROM removal)
