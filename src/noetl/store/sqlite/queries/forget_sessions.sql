DELETE FROM session WHERE expires <= ?
