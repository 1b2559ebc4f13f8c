"""noetl register FILE: store a playbook in the catalog, under its path and the next version."""

from __future__ import annotations

import sys

import click

from noetl.cli.output import emit, output_option
from noetl.cli.report import print_problems, summary
from noetl.cli.target import client_option
from noetl.client.ports import Client
from noetl.runtime.catalog import read


@click.command("register")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@client_option
@output_option()
@click.pass_context
def command(ctx: click.Context, files: tuple[str, ...], client: Client, output: str | None) -> None:
    """Register playbooks under their `metadata.path`. Content that is registered already keeps its version. `-` reads
    standard input."""
    sources = [read(file) for file in files]
    for source in sources:
        print_problems(source.loaded.problems, stream=sys.stderr)
        if source.loaded.playbook is None:
            click.echo(f"{source.shown}: {summary(source.loaded.problems)}; nothing was registered", err=True)
            ctx.exit(3)
    entries = [client.catalog.register(source) for source in sources]
    if output is not None:
        emit(entries if len(entries) > 1 else entries[0], output)
        return
    for entry in entries:
        click.echo(f"{entry['path']}@{entry['version']}")
