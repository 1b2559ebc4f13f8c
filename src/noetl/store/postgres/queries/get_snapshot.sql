SELECT seq, hash, data FROM snapshot WHERE execution = %s
