SELECT (SELECT count(*) FROM ready), (SELECT count(*) FROM lease), (SELECT count(*) FROM timer)
