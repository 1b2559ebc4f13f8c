SELECT seq, type, at, data, hash FROM event WHERE execution = %s AND seq > %s ORDER BY seq LIMIT %s
