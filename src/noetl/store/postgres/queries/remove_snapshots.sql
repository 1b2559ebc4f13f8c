DELETE FROM snapshot WHERE execution IN (SELECT execution FROM removal)
