"""Inputs that several kinds have."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from noetl.model.kind import Kind, doc

Scalar: TypeAlias = str | int | float | bool

Auth: TypeAlias = Annotated[
    str | dict[str, Any] | None, doc("Name of the keychain entry to sign in with, or a map of its fields")
]

# Processes.
Env: TypeAlias = Annotated[dict[str, Scalar | None], doc("Environment variables to add; null removes one")]
Cwd: TypeAlias = Annotated[str | None, doc("Folder to run in; a new temporary one by default")]
Stdin: TypeAlias = Annotated[str | None, doc("Text for standard input")]
ProcessAuth: TypeAlias = Annotated[
    str | dict[str, Any] | None, doc("Keychain entry, or a map, whose fields the process gets as `NOETL_AUTH_<FIELD>`")
]

# Rows for a table.
Mode: TypeAlias = Annotated[
    Literal["append", "upsert", "replace"],
    doc("Append the rows, update rows with the same `key` and append the others, or replace all rows"),
]
Key: TypeAlias = Annotated[list[str], doc("Columns that identify a row, for `upsert`")]

# Objects in a bucket.
Bucket: TypeAlias = Annotated[str, doc("Bucket to work in")]


class SqlInputs(Struct, forbid_unknown_fields=True, kw_only=True):
    """Inputs of the SQL kinds. A template inside a statement is one bound value, never spliced text."""

    command: Annotated[str | None, doc("SQL to run, one statement or several")] = None
    query: Annotated[str | None, doc("The same as `command`")] = None
    params: Annotated[
        list[Any] | dict[str, Any] | None, doc("Values for the placeholders of the driver, by position or by name")
    ] = None
    table: Annotated[
        str | None, doc("Table to write rows into, in place of a statement; created if it does not exist")
    ] = None
    columns: Annotated[
        list[str] | None, doc("Columns to fill; required when `rows` are lists, else taken from the first row")
    ] = None
    rows: Annotated[
        list[dict[str, Any] | list[Any]] | UnsetType | None,
        doc("Rows to write into `table`, as maps or as lists; without them `args` is the row"),
    ] = UNSET
    mode: Mode = "append"
    key: Key = []

    @property
    def sql_field(self) -> str:
        return "command" if self.command is not None else "query"


def sql_kind(
    name: str, product: str, inputs: type[SqlInputs], *, outcome: str, credentials: tuple[str, ...] = ()
) -> Kind:
    return Kind(
        name=name,
        summary=f"Runs SQL on {product}; the result is `{{rows, row_count, columns}}`",
        inputs=inputs,
        timeout=300,
        extra=name,
        sql=("command", "query"),
        outcome=outcome,
        result="rows",
        one_of=(("command", "query", "table"),),
        exclusive=(
            *((name, statement) for name in ("rows", "columns", "key") for statement in ("command", "query")),
            ("params", "table"),
        ),
        credentials=credentials,
    )
