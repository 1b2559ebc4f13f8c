"""Benchmarks: figures beside the machine's own limits, from one run. `make bench` prints them."""
