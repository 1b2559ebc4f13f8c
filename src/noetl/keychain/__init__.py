"""Credentials: sealed in the store, resolved for a lease, hidden in everything that comes out of it."""
