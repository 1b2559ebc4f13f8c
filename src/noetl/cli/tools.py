"""noetl tools: tool kinds and their inputs."""

from __future__ import annotations

import click

from noetl.cli.output import emit, output_option
from noetl.dsl.problem import did_you_mean
from noetl.errors import FileMissing
from noetl.model.inputs import rows, schema
from noetl.tools.registry import KINDS


@click.group("tools", invoke_without_command=True)
@output_option()
@click.pass_context
def command(ctx: click.Context, output: str | None) -> None:
    """List the tool kinds, built-in ones and plug-ins."""
    if ctx.invoked_subcommand is None:
        kinds = [KINDS.all()[name] for name in sorted(KINDS.all())]
        emit(
            [{"kind": kind.name, "extra": kind.extra, "summary": kind.summary} for kind in kinds],
            output or "table",
        )


@command.command("schema")
@click.argument("kind")
@output_option()
def schema_command(kind: str, output: str | None) -> None:
    """Print the inputs of one kind: as a table, or with `-o json` as JSON Schema."""
    tool = KINDS.get(kind)
    if tool is None:
        raise FileMissing(
            f"unknown tool kind {kind!r}: {did_you_mean(kind, KINDS.names()) or '`noetl tools` lists all kinds'}"
        )
    if output in (None, "table"):
        emit([row._asdict() for row in rows(tool)], "table")
    else:
        emit(schema(tool), output or "json")
