"""noetl catalog ...: the playbooks that are registered."""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import quote

import click

from noetl.cli.exec import parted
from noetl.cli.local import ALL, opened, stamp
from noetl.cli.output import emit, output_option
from noetl.cli.place import Place, place_option
from noetl.errors import NotFound
from noetl.printable import printable
from noetl.store.ports import CatalogVersion, Store


@click.group("catalog")
def command() -> None:
    """Look at the playbooks that are registered."""


@command.command("list")
@click.option("--prefix", default="", metavar="PATH", help="Only those whose path begins so.")
@place_option
@output_option()
def list_command(prefix: str, place: Place, output: str | None) -> None:
    """List playbooks, each with the version that its path means at the moment."""
    if place.server is not None:
        from noetl.cli.remote import server

        with server(place.server) as remote:
            found = list(remote.pages("/playbooks", ALL, prefix=prefix or None))
    else:
        with opened(place.db) as store:
            found = [{"path": path} | _version(store.versions(path)[0]) for path in store.paths(prefix, ALL)]
    if output is None:
        found = [{key: one[key] for key in ("path", "version", "label", "registered")} for one in found]
    emit(found, output or "table")


@command.command("show")
@click.argument("path", metavar="PATH[@VERSION]")
@place_option
@output_option()
def show_command(path: str, place: Place, output: str | None) -> None:
    """Print the text of a playbook; `-o json` prints its versions as well."""
    name, version = parted(path)
    if place.server is not None:
        from noetl.cli.remote import server

        with server(place.server) as remote:
            found = remote.get(f"/playbooks/{quote(name)}", version=version)
    else:
        with opened(place.db) as store:
            found = _found(store, name, version)
    if output is not None:
        emit(found, output)
    else:
        text = printable(found["text"], lines=True) if sys.stdout.isatty() else found["text"]
        click.echo(text, nl=not text.endswith("\n"))


def _found(store: Store, path: str, version: int | None) -> dict[str, Any]:
    versions = store.versions(path)
    chosen = next((one for one in versions if version in (None, one.version)), None)
    stored = store.playbook(chosen.digest) if chosen is not None else None
    if chosen is None or stored is None:
        raise NotFound(f"no playbook is registered as {path}{f'@{version}' if version else ''}")
    return {
        "path": path,
        "version": chosen.version,
        "playbook_id": chosen.digest,
        "text": stored[1].decode("utf-8", "replace"),
        "versions": [_version(one) for one in versions],
    }


def _version(one: CatalogVersion) -> dict[str, Any]:
    return {
        "version": one.version,
        "playbook_id": one.digest,
        "label": one.label,
        "registered": stamp(one.registered),
    }
