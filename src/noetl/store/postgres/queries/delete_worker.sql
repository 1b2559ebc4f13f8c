DELETE FROM worker_session WHERE worker = %s
