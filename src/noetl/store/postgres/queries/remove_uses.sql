DELETE FROM blob_use WHERE execution IN (SELECT execution FROM removal)
