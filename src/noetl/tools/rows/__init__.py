"""Rows of data on their way: how drivers that block are called, how databases are opened, and what a value becomes.

Used by the kinds `duckdb`, `snowflake` and `transfer`. Nothing here is imported before one of them is called.
"""
