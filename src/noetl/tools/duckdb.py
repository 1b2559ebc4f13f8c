"""kind: duckdb. SQL on DuckDB, in memory or in a file, over Parquet, CSV and JSON."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from noetl.model.kind import doc
from noetl.model.outcome import Outcome
from noetl.tools.base import Context, missing_driver
from noetl.tools.fields import SqlInputs, sql_kind


class Inputs(SqlInputs, forbid_unknown_fields=True, kw_only=True):
    database: Annotated[str | None, doc("File of the database; in memory by default, and with `:memory:`")] = None
    read_only: Annotated[bool, doc("Open the file for reading only")] = False
    paths: Annotated[list[str], doc("Folders and files that the statements may read and write")] = []
    memory: Annotated[
        str, Meta(pattern=r"^[1-9]\d*(KB|MB|GB|KiB|MiB|GiB)$", description="Memory limit, such as `512MB`")
    ] = "1GB"
    threads: Annotated[int, Meta(ge=1, le=64, description="Threads that DuckDB may use")] = 2

    @property
    def is_in_memory(self) -> bool:
        return self.database in (None, ":memory:")


KIND = sql_kind("duckdb", "DuckDB", Inputs, outcome="duckdb")


async def run(inputs: Inputs, context: Context) -> Outcome:
    try:
        from noetl.tools.rows.duckdb_call import call
    except ImportError:
        return missing_driver("duckdb", "duckdb")
    return await call(inputs, context)
