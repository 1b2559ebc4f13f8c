SELECT data FROM blob WHERE key = %s
