SELECT run, pool FROM ready WHERE execution = %s
