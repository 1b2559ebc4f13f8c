SELECT name, due FROM timer WHERE execution = %s
