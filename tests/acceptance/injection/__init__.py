"""Hostile values, the ways they come into a playbook, and the places they are put in."""
