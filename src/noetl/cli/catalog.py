"""noetl register FILE..., noetl catalog ...: registered playbooks."""

from __future__ import annotations

import sys

import click

from noetl.cli.options import client_and_output, split_version
from noetl.cli.output import emit, pick, print_problems, print_rejected
from noetl.client.ports import Client
from noetl.printable import printable
from noetl.runtime.catalog import read


@click.command("register")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@client_and_output
def register_command(files: tuple[str, ...], client: Client, output: str | None) -> int:
    """Register playbooks under their `metadata.path`. Content that is registered already keeps its version. `-` reads
    standard input."""
    sources = [read(file) for file in files]
    for source in sources:
        if source.loaded.playbook is None:
            print_rejected(source.shown, source.loaded.problems, "; nothing was registered")
            return 3
        print_problems(source.loaded.problems, err=True)
    entries = [client.catalog.register(source) for source in sources]
    if output is not None:
        emit(entries if len(entries) > 1 else entries[0], output)
    else:
        click.echo("\n".join(f"{entry['path']}@{entry['version']}" for entry in entries))
    return 0


@click.group("catalog")
def command() -> None:
    """List and show registered playbooks."""


@command.command("list")
@click.option("--prefix", default="", metavar="PATH", help="List only paths that begin with PATH.")
@client_and_output
def list_command(prefix: str, client: Client, output: str | None) -> None:
    """List playbooks, each with its current version."""
    entries = client.catalog.list(prefix)
    emit(entries if output else pick(entries, "path", "version", "label", "registered"), output or "table")


@command.command("show")
@click.argument("path", metavar="PATH[@VERSION]")
@client_and_output
def show_command(path: str, client: Client, output: str | None) -> None:
    """Print the text of a playbook; `-o json` also lists its versions."""
    playbook = client.catalog.get(*split_version(path))
    if output is not None:
        emit(playbook, output)
        return
    text = printable(playbook["text"], lines=True) if sys.stdout.isatty() else playbook["text"]
    click.echo(text, nl=not text.endswith("\n"))
