SELECT number, task, at, stream, line FROM log WHERE execution = %s AND number > %s ORDER BY number LIMIT %s
