UPDATE session SET seen = max(seen, ?) WHERE id = ?
