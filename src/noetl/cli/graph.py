"""noetl graph FILE: draw a playbook."""

from __future__ import annotations

import shutil
from typing import Any

import click

from noetl.cli.report import print_problems, summary
from noetl.drawing import draw
from noetl.files import load_file


@click.command("graph")
@click.argument("file")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "mermaid", "dot", "svg"]),
    default="text",
    show_default=True,
    help="Format of the drawing.",
)
@click.pass_context
def command(ctx: click.Context, file: str, form: Any) -> None:
    """Draw the graph of a playbook: a box per step, an arrow per arc, guards on the arrows."""
    loaded = load_file(file)
    if loaded.playbook is None:
        import sys

        print_problems(loaded.problems, stream=sys.stderr)
        click.echo(f"{file}: {summary(loaded.problems)}", err=True)
        ctx.exit(3)
    click.echo(draw(loaded.playbook, form, width=shutil.get_terminal_size((100, 24)).columns), nl=False)
