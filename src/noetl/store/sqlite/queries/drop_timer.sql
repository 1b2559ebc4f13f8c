DELETE FROM timer WHERE execution = ? AND name = ?
