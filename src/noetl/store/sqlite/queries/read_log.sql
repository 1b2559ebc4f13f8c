SELECT number, task, at, stream, line FROM log WHERE execution = ? AND number > ? ORDER BY number LIMIT ?
