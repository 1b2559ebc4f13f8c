INSERT OR IGNORE INTO blob_part (whole, part) VALUES (?, ?)
