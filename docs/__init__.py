"""The documentation: pages written by hand, and `generate.py` for those made from the code."""
