"""NATS, which the server does not need: the database has everything that matters, and all works while NATS is down."""
