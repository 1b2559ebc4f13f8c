DELETE FROM lease WHERE execution = ? AND fence = ?
