"""noetl schema: the language as JSON Schema, for editors."""

from __future__ import annotations

import click

from noetl.cli.output import emit
from noetl.dsl.schema import playbook_schema
from noetl.tools.registry import KINDS


@click.command("schema")
def command() -> None:
    """Print the JSON Schema (2020-12) of playbooks.

    Point an editor at it, for instance with `# yaml-language-server: $schema=noetl.schema.json` on the first line.
    """
    emit(playbook_schema(KINDS.all()), "json")
