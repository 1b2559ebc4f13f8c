SELECT fence, run, worker, since, ttl FROM lease WHERE execution = %s
