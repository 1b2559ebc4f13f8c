"""Rows for the kinds `duckdb`, `snowflake` and `transfer`. Only a call imports these modules."""
