"""Blocking drivers, opening databases, and conversion of values, for the kinds `duckdb`, `snowflake` and `transfer`.

Only a call imports these modules.
"""
