"""noetl catalog ...: registered playbooks."""

from __future__ import annotations

import sys

import click

from noetl.cli.inputs import split_version
from noetl.cli.output import emit, output_option
from noetl.cli.target import client_option
from noetl.client.ports import Client
from noetl.printable import printable


@click.group("catalog")
def command() -> None:
    """List and show registered playbooks."""


@command.command("list")
@click.option("--prefix", default="", metavar="PATH", help="List only paths that begin with PATH.")
@client_option
@output_option()
def list_command(prefix: str, client: Client, output: str | None) -> None:
    """List playbooks, each with its current version."""
    entries = client.catalog.list(prefix)
    if output is None:
        entries = [{key: entry[key] for key in ("path", "version", "label", "registered")} for entry in entries]
    emit(entries, output or "table")


@command.command("show")
@click.argument("path", metavar="PATH[@VERSION]")
@client_option
@output_option()
def show_command(path: str, client: Client, output: str | None) -> None:
    """Print the text of a playbook; `-o json` also lists its versions."""
    playbook = client.catalog.get(*split_version(path))
    if output is not None:
        emit(playbook, output)
    else:
        text = printable(playbook["text"], lines=True) if sys.stdout.isatty() else playbook["text"]
        click.echo(text, nl=not text.endswith("\n"))
