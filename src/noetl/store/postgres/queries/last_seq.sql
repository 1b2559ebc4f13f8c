SELECT coalesce(max(seq), 0) FROM event WHERE execution = %s
