"""noetl tools, noetl schema: tool kinds and their inputs, and the language as JSON Schema."""

from __future__ import annotations

import click

from noetl.cli.output import emit, output_option
from noetl.dsl.problem import did_you_mean
from noetl.dsl.schema import playbook_schema
from noetl.errors import FileMissing
from noetl.model.inputs import rows, schema
from noetl.tools.registry import KINDS


@click.command("schema")
def schema_command() -> None:
    """Print the JSON Schema (2020-12) of playbooks.

    Point an editor at it, for instance with `# yaml-language-server: $schema=noetl.schema.json` on the first line.
    """
    emit(playbook_schema(KINDS.all()), "json")


@click.group("tools", invoke_without_command=True)
@output_option()
@click.pass_context
def command(ctx: click.Context, output: str | None) -> None:
    """List the tool kinds, built-in ones and plug-ins."""
    if ctx.invoked_subcommand is None:
        kinds = sorted(KINDS.all().items())
        listed = [{"kind": kind.name, "extra": kind.extra, "summary": kind.summary} for _, kind in kinds]
        emit(listed, output or "table")


@command.command("schema")
@click.argument("kind")
@output_option()
def kind_schema_command(kind: str, output: str | None) -> None:
    """Print the inputs of one kind: as a table, or with `-o json` as JSON Schema."""
    tool = KINDS.get(kind)
    if tool is None:
        hint = did_you_mean(kind, KINDS.names()) or "`noetl tools` lists all kinds"
        raise FileMissing(f"unknown tool kind {kind!r}: {hint}")
    if output in (None, "table"):
        emit([row._asdict() for row in rows(tool)], "table")
    else:
        emit(schema(tool), output or "json")
