"""Columns of a transfer: their DuckDB types, and the types of the other databases.

The staging database of a transfer is DuckDB, so every other database has two tables: from its types to DuckDB's and
back. A type that DuckDB does not have is text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from noetl.sql import quoted

DECIMAL_DIGITS = 38


class Column(NamedTuple):
    name: str
    type: str

    @property
    def quoted(self) -> str:
        return quoted(self.name)

    @property
    def nested(self) -> bool:
        """Whether databases without such a type get its values as JSON."""
        return self.type == "JSON" or self.type.endswith("]") or self.type.startswith(("STRUCT", "MAP", "UNION"))


# -- PostgreSQL -------------------------------------------------------------------------------------------------------

SUB_TIMESTAMPS = ("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")
SAME_IN_POSTGRES = ("SMALLINT", "INTEGER", "BIGINT", "BOOLEAN", "DATE", "INTERVAL", "UUID")
FROM_POSTGRES = {
    **{name.lower(): name for name in SAME_IN_POSTGRES},
    "oid": "BIGINT",
    "real": "FLOAT",
    "double precision": "DOUBLE",
    "time without time zone": "TIME",
    "timestamp without time zone": "TIMESTAMP",
    "timestamp with time zone": "TIMESTAMPTZ",
    "bytea": "BLOB",
    "json": "JSON",
    "jsonb": "JSON",
}
TO_POSTGRES = {
    **{name: name.lower() for name in (*SAME_IN_POSTGRES, "TIME", "TIMESTAMP", "TIMESTAMPTZ")},
    **dict.fromkeys(("TINYINT", "UTINYINT"), "smallint"),
    "USMALLINT": "integer",
    "UINTEGER": "bigint",
    "UBIGINT": "numeric(20,0)",
    **dict.fromkeys(("HUGEINT", "UHUGEINT"), "numeric(39,0)"),
    "FLOAT": "real",
    "DOUBLE": "double precision",
    **dict.fromkeys(SUB_TIMESTAMPS, "timestamp"),
    "BLOB": "bytea",
}


def from_postgres(kind: str) -> str:
    if kind.endswith("[]"):
        inner = from_postgres(kind.removesuffix("[]"))
        return "VARCHAR[]" if inner == "BLOB" else f"{inner}[]"
    if (decimal := re.fullmatch(r"numeric\((\d+),(-?\d+)\)", kind)) and int(decimal[1]) <= DECIMAL_DIGITS:
        digits, scale = int(decimal[1]), int(decimal[2])
        return f"DECIMAL({digits},{scale})" if 0 <= scale <= digits else "VARCHAR"
    bare = re.sub(r"\(\d+\)", "", kind)  # timestamp(3) without time zone
    return FROM_POSTGRES.get(bare, "VARCHAR")


def to_postgres(kind: str) -> str:
    if kind.startswith("DECIMAL"):
        return kind.replace("DECIMAL", "numeric")
    inner = re.fullmatch(r"([^\[\]]+)\[\d*\]", kind)
    if inner and not inner[1].startswith(("STRUCT", "MAP", "UNION", "JSON", "ENUM")):
        return f"{to_postgres(inner[1])}[]"
    return "jsonb" if Column("", kind).nested else TO_POSTGRES.get(kind, "text")


# -- Snowflake --------------------------------------------------------------------------------------------------------

FROM_SNOWFLAKE = {
    **{name: name for name in ("DATE", "TIME", "TIMESTAMP", "BOOLEAN")},
    "REAL": "DOUBLE",
    "TIMESTAMP_NTZ": "TIMESTAMP",
    **dict.fromkeys(("TIMESTAMP_LTZ", "TIMESTAMP_TZ"), "TIMESTAMPTZ"),
    **dict.fromkeys(("VARIANT", "OBJECT", "ARRAY"), "JSON"),
    "BINARY": "BLOB",
}
TO_SNOWFLAKE = {
    **{name: name for name in ("BOOLEAN", "DATE", "TIME")},
    **dict.fromkeys(("FLOAT", "DOUBLE"), "FLOAT"),
    **dict.fromkeys(("TIMESTAMP", *SUB_TIMESTAMPS), "TIMESTAMP_NTZ"),
    "TIMESTAMPTZ": "TIMESTAMP_TZ",
    "BLOB": "BINARY",
}
LONG_DIGITS = 18
"""A BIGINT can represent every number with so many digits."""


def from_snowflake(kind: str, digits: int | None, scale: int | None) -> str:
    if kind != "FIXED":
        return FROM_SNOWFLAKE.get(kind, "VARCHAR")
    if scale:
        return f"DECIMAL({digits or DECIMAL_DIGITS},{scale})"
    return "BIGINT" if (digits or DECIMAL_DIGITS) <= LONG_DIGITS else f"DECIMAL({DECIMAL_DIGITS},0)"


def to_snowflake(kind: str) -> str:
    if kind.startswith("DECIMAL"):
        return kind.replace("DECIMAL", "NUMBER")
    if kind.endswith(("INT", "INTEGER")):
        return "NUMBER(38,0)"
    return "VARIANT" if Column("", kind).nested else TO_SNOWFLAKE.get(kind, "VARCHAR")
