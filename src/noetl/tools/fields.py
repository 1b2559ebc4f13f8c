"""Inputs that mean the same in several kinds, written down once."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta

Scalar: TypeAlias = str | int | float | bool

Auth: TypeAlias = Annotated[
    str | dict[str, Any] | None,
    Meta(description="Name of the keychain entry to sign in with, or a map of its fields"),
]

# SQL. A template inside a statement is one bound value, never spliced text.
Command: TypeAlias = Annotated[str | None, Meta(description="SQL to run, one statement or several")]
Query: TypeAlias = Annotated[str | None, Meta(description="The same as `command`")]
Params: TypeAlias = Annotated[
    list[Any] | dict[str, Any] | None,
    Meta(description="Values for the placeholders of the driver, by position or by name"),
]
Table: TypeAlias = Annotated[str | None, Meta(description="Table to insert into in bulk, in place of a statement")]
Columns: TypeAlias = Annotated[
    list[str] | None,
    Meta(description="Columns to fill; needed when `rows` are lists, else taken from the first row"),
]
Rows: TypeAlias = Annotated[
    list[dict[str, Any] | list[Any]] | None,
    Meta(description="Rows to insert into `table`, as maps or as lists; without them `args` is the row"),
]

# Processes.
Env: TypeAlias = Annotated[
    dict[str, Scalar | None],
    Meta(description="Environment variables to add; one that is null is removed"),
]
Cwd: TypeAlias = Annotated[str | None, Meta(description="Folder to run in; a fresh temporary one if not given")]
Stdin: TypeAlias = Annotated[str | None, Meta(description="Text for standard input")]
ProcessAuth: TypeAlias = Annotated[
    str | dict[str, Any] | None,
    Meta(description="Keychain entry, or a map, whose fields the process gets as `NOETL_AUTH_<FIELD>`"),
]

# Objects in a bucket.
Bucket: TypeAlias = Annotated[str, Meta(description="Bucket to work in")]
