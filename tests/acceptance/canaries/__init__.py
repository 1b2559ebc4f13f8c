"""Canary secrets, the playbooks that use them in every kind, and the search for what is left of them."""
