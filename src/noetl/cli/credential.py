"""noetl credential ...: the credentials of a database or a server. Values go in and never come out."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import click
import msgspec

from noetl.cli.local import opened, safe_of, stamp
from noetl.cli.output import emit, output_option
from noetl.cli.place import Place, place_option
from noetl.clock import SystemClock
from noetl.errors import NotFound, UsageError
from noetl.files import STDIN, read_file
from noetl.keychain.kinds import SHAPES, fields_of
from noetl.keychain.safe import check
from noetl.settings import ServerAddress
from noetl.store.ports import SealedCredential

if TYPE_CHECKING:
    from noetl.cli.remote import Server

MAX_BYTES = 2**20
KIND_HELP = f"Kind of the credential: {', '.join(SHAPES)}, or PLUGIN.KIND of a plug-in."
DATA_HELP = (
    "Its fields as a JSON map: with @ in a file, with - (the default) on standard input; a terminal asks for them "
    "unseen. JSON given here can be seen by others in the list of processes. Text that is no map is the token, key or "
    "connection string of the kind."
)


@click.group("credential")
def command() -> None:
    """Keep credentials for playbooks to sign in with.

    They are sealed with a master key: the variable NOETL_MASTER_KEY, or else the file that NOETL_MASTER_KEY_FILE names
    (~/.config/noetl/master.key), which is made when the first credential is set. Keep a copy of it: without the key
    nothing can be opened.
    """


@command.command("set")
@click.argument("name")
@click.option("--kind", required=True, metavar="KIND", help=KIND_HELP)
@click.option("--data", default=STDIN, metavar="JSON, @FILE or -", help=DATA_HELP)
@click.option("--paths", multiple=True, metavar="PATTERN", help="Playbooks that may use it; all if not given.")
@click.option("--pools", multiple=True, metavar="PATTERN", help="Pools that may use it; all if not given.")
@place_option
def set_command(name: str, kind: str, data: str, paths: tuple[str, ...], pools: tuple[str, ...], place: Place) -> None:
    """Keep a credential, or put another in its place."""
    fields = _fields(kind, _text(name, kind, data))
    check(name, kind, fields)
    if place.server is not None:
        body = {"kind": kind, "data": fields, "paths": paths, "pools": pools}
        with _server(place.server) as server:
            server.put(f"/credentials/{name}", body)
        click.echo(f"credential {name} ({kind}) is set", err=True)
        return
    with opened(place.db, "create") as store:
        safe_of(store).put(name, kind, fields, paths=paths, pools=pools, now=SystemClock().now())
    click.echo(f"credential {name} ({kind}) is set", err=True)


@command.command("list")
@place_option
@output_option()
def list_command(place: Place, output: str | None) -> None:
    """List credentials with their kinds and who may use them, never with values."""
    if place.server is not None:
        with _server(place.server) as server:
            emit(server.get("/credentials")["items"], output or "table")
        return
    with opened(place.db) as store:
        emit([_listed(one) for one in store.credentials.all()], output or "table")


@command.command("delete")
@click.argument("name")
@place_option
def delete_command(name: str, place: Place) -> None:
    """Forget a credential."""
    if place.server is not None:
        with _server(place.server) as server:
            server.delete(f"/credentials/{name}")
    else:
        with opened(place.db, "write") as store:
            if not store.credentials.delete(name):
                raise NotFound(f"there is no credential {name!r}: `noetl credential list` shows them")
    click.echo(f"credential {name} is deleted", err=True)


@command.command("rotate")
@click.option("--forget-old", is_flag=True, help="Remove the old master keys; other databases may still need them.")
@place_option
@output_option()
def rotate_command(forget_old: bool, place: Place, output: str | None) -> None:
    """Make a new master key and wrap every credential with it.

    The old keys stay in the key file, since other databases may use them. Runs can go on meanwhile. Where the key is in
    NOETL_MASTER_KEY, put the new one in front of the old, with a comma between, and then call this.
    """
    if place.server is not None:
        raise UsageError("the master key is never seen by a server's clients: rotate with --db, where the key is")
    with opened(place.db, "write") as store:
        safe = safe_of(store)
        done = safe.rotate(forget_older=forget_old)
    if output is not None:
        emit(done._asdict() | {"key": safe.keys.read().current.id.hex()}, output)
    count = done.credentials
    if count == 0 and not safe.keys.is_file:
        text = "every credential is wrapped with the first key of NOETL_MASTER_KEY: put a new one in front of it"
        click.echo(f"{text}, with a comma between, and call this again", err=True)
        return
    click.echo(f"{count:,} credential{'s' * (count != 1)} wrapped with a new master key", err=True)


def _server(address: ServerAddress) -> AbstractContextManager[Server]:
    from noetl.cli.remote import server

    return server(address)


def _listed(one: SealedCredential) -> dict[str, Any]:
    return {
        "name": one.name,
        "kind": one.kind,
        "paths": list(one.paths),
        "pools": list(one.pools),
        "created": stamp(one.created),
        "updated": stamp(one.updated),
    }


def _text(name: str, kind: str, data: str) -> str:
    if data == STDIN and sys.stdin is not None and sys.stdin.isatty():
        asked: str = click.prompt(f"Data of {name} ({kind})", hide_input=True, err=True)
        return asked
    if data != STDIN and not data.startswith("@"):
        click.echo("noetl: others may see this data in the list of processes; `--data -` reads it unseen", err=True)
        return data
    content = read_file(data.removeprefix("@"))
    if len(content) > MAX_BYTES:
        raise UsageError(f"--data: more than {MAX_BYTES:,} bytes")
    try:
        return content.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise UsageError("--data: not a text in UTF-8") from None


def _fields(kind: str, text: str) -> Any:
    """The fields that were given. What is wrong with the JSON is said without a word of it."""
    if text.startswith("{"):
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            raise UsageError("--data: no valid JSON") from None
    fields = fields_of(kind, text) if text else None
    if fields is None:
        raise UsageError("--data: the data of a credential is a map of its fields, as JSON")
    return fields
