SELECT seq, type, at, data, hash FROM event WHERE execution = ? AND seq > ? ORDER BY seq LIMIT ?
