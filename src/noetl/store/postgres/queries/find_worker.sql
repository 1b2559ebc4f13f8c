SELECT worker, pool, slots, host, started, beat, leases, version FROM worker_session WHERE worker = %s
