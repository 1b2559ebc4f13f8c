"""noetl register FILE: keep a playbook in the catalog, under its path and the next version."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from noetl.cli.local import opened
from noetl.cli.output import emit, output_option
from noetl.cli.place import Place, place_option
from noetl.cli.report import print_problems, summary
from noetl.clock import SystemClock
from noetl.runtime.catalog import Source, read
from noetl.store.ports import Store


@click.command("register")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@place_option
@output_option()
@click.pass_context
def command(ctx: click.Context, files: tuple[str, ...], place: Place, output: str | None) -> None:
    """Register playbooks under their `metadata.path`. The same content has the same version again. `-` reads
    standard input."""
    sources = [read(file) for file in files]
    for source in sources:
        print_problems(source.loaded.problems, stream=sys.stderr)
        if source.loaded.playbook is None:
            click.echo(f"{source.shown}: {summary(source.loaded.problems)}; nothing was registered", err=True)
            ctx.exit(3)
    found = _registered(sources, place)
    if output is not None:
        emit(found if len(found) > 1 else found[0], output)
        return
    for one in found:
        click.echo(f"{one['path']}@{one['version']}")


def _registered(sources: list[Source], place: Place) -> list[dict[str, Any]]:
    if place.server is not None:
        from noetl.cli.remote import server

        with server(place.server) as remote:
            answers = [remote.post_text("/playbooks", source.text) for source in sources]
        return [{key: one[key] for key in ("playbook_id", "path", "version")} for one in answers]
    with opened(place.db, "create") as store:
        return [register(store, source) for source in sources]


def register(store: Store, source: Source) -> dict[str, Any]:
    """Keep the text, and give it its version."""
    playbook = source.loaded.require()
    store.put_playbook(playbook.digest, os.path.abspath(source.file), source.text)
    version = store.register(playbook.path, playbook.digest, str(playbook.version or ""), SystemClock().now())
    return {"playbook_id": playbook.digest, "path": playbook.path, "version": version}
