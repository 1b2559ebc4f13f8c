"""NATS beside the database: hints that wake workers, sessions, large values. All of it works without."""
