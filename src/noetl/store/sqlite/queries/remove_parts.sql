DELETE FROM blob_part WHERE whole = ?
