"""noetl hook ...: signed requests that start playbooks. A secret goes in, or is printed once when it is made."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec

from noetl.cli.exec import parted
from noetl.cli.local import opened, safe_of
from noetl.cli.output import emit, output_option
from noetl.cli.place import Place, place_option
from noetl.clock import SystemClock
from noetl.errors import NotFound, UsageError
from noetl.files import STDIN, read_file
from noetl.server import hooks
from noetl.server.models.hooks import HookView

SECRET_HELP = "The secret, if the sender has one: with @ in a file, with - on standard input. Else one is made."


@click.group("hook")
def command() -> None:
    """Let signed requests start registered playbooks: POST /api/v1/hooks/NAME of a server.

    The sender signs the time and the body with the secret of the hook. The secret is sealed like a credential.
    """


@command.command("add")
@click.argument("name")
@click.argument("path", metavar="PATH[@VERSION]")
@click.option("--secret", metavar="@FILE or -", help=SECRET_HELP)
@place_option
@output_option()
def add_command(name: str, path: str, secret: str | None, place: Place, output: str | None) -> None:
    """Make a hook, or change it. A secret that is made for it is printed: this once."""
    where, version = parted(path)
    given = None if secret is None else _secret(secret)
    if place.server is not None:
        from noetl.cli.remote import server

        with server(place.server) as remote:
            made = remote.put(f"/hooks/{name}", {"path": where, "version": version, "secret": given})
    else:
        with opened(place.db, "write") as store:
            if store.find(where, version) is None:
                raise NotFound(f"no playbook is registered as {path}: `noetl register` does that")
            hook, new, _ = hooks.put(store, safe_of(store), name, where, version, given, SystemClock().now())
        made = msgspec.to_builtins(HookView.of(hook)) | {"secret": new}
    _tell(made, output)


@command.command("list")
@place_option
@output_option()
def list_command(place: Place, output: str | None) -> None:
    """List hooks, never their secrets."""
    if place.server is not None:
        from noetl.cli.remote import server

        with server(place.server) as remote:
            found = remote.get("/hooks")["items"]
    else:
        with opened(place.db) as store:
            found = [msgspec.to_builtins(HookView.of(one)) for one in store.triggers.hooks()]
    emit(found, output or "table")


@command.command("rotate")
@click.argument("name")
@place_option
@output_option()
def rotate_command(name: str, place: Place, output: str | None) -> None:
    """Give a hook another secret and print it: this once. The one before it ends at once."""
    if place.server is not None:
        from noetl.cli.remote import server

        with server(place.server) as remote:
            made = remote.post(f"/hooks/{name}/rotate")
    else:
        with opened(place.db, "write") as store:
            hook, secret = hooks.rotate(store, safe_of(store), name, SystemClock().now())
        made = msgspec.to_builtins(HookView.of(hook)) | {"secret": secret}
    _tell(made, output)


@command.command("delete")
@click.argument("name")
@place_option
def delete_command(name: str, place: Place) -> None:
    """Forget a hook and its secret."""
    if place.server is not None:
        from noetl.cli.remote import server

        with server(place.server) as remote:
            remote.delete(f"/hooks/{name}")
    else:
        with opened(place.db, "write") as store:
            hooks.delete(store, name)
    click.echo(f"hook {name} is deleted", err=True)


def _secret(given: str) -> str:
    if given != STDIN and not given.startswith("@"):
        raise UsageError("--secret: others could see it in the list of processes; give @FILE, or - for standard input")
    if given == STDIN and sys.stdin is not None and sys.stdin.isatty():
        asked: str = click.prompt("Secret", hide_input=True, err=True)
        return asked
    try:
        return read_file(given.removeprefix("@")).decode().strip()
    except UnicodeDecodeError:
        raise UsageError("--secret: not a text in UTF-8") from None


def _tell(made: dict[str, Any], output: str | None) -> None:
    if output is not None:
        emit(made, output)
    elif made["secret"]:
        click.echo(made["secret"])
    click.echo(f"hook {made['name']} starts {made['path']}: POST /api/v1/hooks/{made['name']}", err=True)
