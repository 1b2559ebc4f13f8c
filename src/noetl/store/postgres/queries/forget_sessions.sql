DELETE FROM session WHERE expires <= %s
