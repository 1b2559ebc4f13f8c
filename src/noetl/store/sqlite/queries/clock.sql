SELECT unixepoch('subsec')
