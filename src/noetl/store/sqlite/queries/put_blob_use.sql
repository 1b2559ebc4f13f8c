INSERT OR IGNORE INTO blob_use (execution, key) VALUES (?, ?)
