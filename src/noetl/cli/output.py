"""`-o`: the same data as json, jsonl, yaml or a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
import msgspec

from noetl.printable import is_printable, printable, printable_json

Data = TypeVar("Data")
FORMATS = ("json", "jsonl", "yaml", "table")


def output_option(*formats: str) -> Callable[..., Any]:
    """The option `-o` of a verb; without it the verb prints text for people."""
    return click.option("-o", "--output", type=click.Choice(formats or FORMATS), help="Print data in this format.")


def emit_or(data: Data, output: str | None, show: Callable[[Data], None]) -> None:
    """Print data in the format of `-o`; without it, `show` prints it for people."""
    if output is not None:
        emit(data, output)
    else:
        show(data)


def emit(data: Any, output: str) -> None:
    match output:
        case "json":
            click.echo(printable_json(msgspec.json.format(msgspec.json.encode(data), indent=2).decode()))
        case "jsonl":
            for item in data if isinstance(data, list) else [data]:
                click.echo(printable_json(msgspec.json.encode(item).decode()))
        case "yaml":
            import yaml

            plain = msgspec.to_builtins(data)
            text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
            if not is_printable(text):  # then all that is not ASCII is escaped
                text = yaml.safe_dump(plain, sort_keys=False)
            click.echo(text, nl=False)
        case _:
            rows = msgspec.to_builtins(data if isinstance(data, list) else [data])
            if rows:
                click.echo(table(rows))


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows of equal keys in aligned columns."""
    heads = list(rows[0])
    lines = [heads, *([_cell(row.get(head)) for head in heads] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return printable(" ".join(text.split()))
