"""NATS: connections for the tool kind and for servers, ready hints between servers, and copies of large values.

client.py       one connection of the driver, which never reconnects
pool.py         connections that calls of the tool kind share
connection.py   the connection of a server or worker, which is opened again whenever it breaks
hints.py        ready hints between servers
objects.py      copies of large values in object buckets

The server does not need NATS: the database has everything that matters, and everything keeps working while NATS is
down.
"""
