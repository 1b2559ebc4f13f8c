UPDATE session SET seen = greatest(seen, %s) WHERE id = %s
