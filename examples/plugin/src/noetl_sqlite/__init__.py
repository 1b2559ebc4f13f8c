"""kind: sqlite. One statement on a SQLite database.

The driver blocks, so a call runs in a thread. Heavy modules are imported there: `noetl validate` imports this module
and makes no call.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from noetl.model.kind import Kind
from noetl.model.outcome import Outcome, failed
from noetl.tools.base import Context

if TYPE_CHECKING:
    import sqlite3

MEMORY = ":memory:"
MAX_ROWS = 10_000
BUSY_SECONDS = 1.0
"""How long it waits for the lock of somebody else; a retry of the task waits longer."""
STEPS_BETWEEN_LOOKS = 1_000
"""How many steps SQLite makes before it asks whether to go on."""


class Inputs(Struct, forbid_unknown_fields=True, kw_only=True):
    database: Annotated[str, Meta(description="File of the database, or `:memory:`")]
    query: Annotated[str, Meta(description="One statement, never rendered: values go through `params`")]
    params: Annotated[
        list[Any] | dict[str, Any],
        Meta(description="Values for `?` by position, or for `:name` by name"),
    ] = []
    create: Annotated[bool, Meta(description="Make the database if there is none")] = False


KIND = Kind(
    name="sqlite",
    summary="Runs one statement on a SQLite database; the result is `{rows, row_count, columns}`",
    inputs=Inputs,
    timeout=60,
    verbatim=("query",),
    outcome="sqlite",
    result="rows",
)


async def run(inputs: Inputs, context: Context) -> Outcome:
    """Run the statement in a thread; cancelling ends it there."""
    import asyncio

    call = Call(inputs)
    try:
        return await asyncio.to_thread(call.run)
    except asyncio.CancelledError:
        call.stopped = True
        raise


class Call:
    """One statement. It looks now and then whether it was stopped."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.stopped = False

    def run(self) -> Outcome:
        import sqlite3

        inputs = self.inputs
        try:
            if inputs.database != MEMORY and not inputs.create and not Path(inputs.database).is_file():
                return _failed("not_found", f"there is no database {inputs.database[:200]!r}; `create: true` makes one")
            connection = sqlite3.connect(inputs.database, timeout=BUSY_SECONDS, isolation_level=None)
        except (sqlite3.Error, ValueError, OSError) as error:
            return _failed("input", f"the database can't be opened: {error}"[:300])
        try:
            connection.set_progress_handler(lambda: self.stopped, STEPS_BETWEEN_LOOKS)
            return _outcome(connection.execute(inputs.query, inputs.params))
        except sqlite3.Error as error:
            return _refused(error)
        except (ValueError, OverflowError) as error:
            return _failed("input", f"the statement or its params can't be used: {error}")
        finally:
            connection.close()


def _outcome(cursor: sqlite3.Cursor) -> Outcome:
    columns = [name for name, *_ in cursor.description or ()]
    found = cursor.fetchmany(MAX_ROWS + 1)
    if len(found) > MAX_ROWS:
        return _failed("too_large", f"there are more than {MAX_ROWS:,} rows: add a LIMIT")
    rows = [dict(zip(columns, map(_plain, row), strict=True)) for row in found]
    count = len(rows) if columns else max(0, cursor.rowcount)
    return Outcome(result={"rows": rows, "row_count": count, "columns": columns}, extra={"sqlite": {"code": None}})


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


def _refused(error: sqlite3.Error) -> Outcome:
    """What SQLite says. Somebody else's lock goes away; everything else is there the next time too."""
    code = getattr(error, "sqlite_errorname", None)
    retryable = code is not None and code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
    return _failed("sql", str(error), code, retryable=retryable)


def _failed(kind: str, message: str, code: str | None = None, *, retryable: bool = False) -> Outcome:
    return failed(kind, f"sqlite: {message}", retryable=retryable, extra={"sqlite": {"code": code}})
