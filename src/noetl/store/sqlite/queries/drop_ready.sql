DELETE FROM ready WHERE execution = ? AND run = ?
