"""noetl token ...: who may ask a server. A token is printed once, when it is made; only its hash is kept."""

from __future__ import annotations

from typing import Any

import click

from noetl.cli.local import opened, stamp
from noetl.cli.output import emit, output_option
from noetl.cli.place import Place, place_option
from noetl.cli.user import ROLE_HELP
from noetl.clock import SystemClock
from noetl.errors import NotFound, UsageError
from noetl.model.duration import seconds
from noetl.store.access import ROLES, Role, Token


@click.group("token")
def command() -> None:
    """Make, list and revoke tokens: of a database (before its server is started, too), or of a server."""


@command.command("create")
@click.option("--role", required=True, type=click.Choice(ROLES), help=f"{ROLE_HELP}; worker works.")
@click.option("--name", default="", help="What it is for, to tell it from others.")
@click.option("--pool", help="For workers: the only pool they may work for.")
@click.option("--expires", metavar="DURATION", help="How long it is good, such as 12h or 30d; for ever if not given.")
@place_option
@output_option()
def create_command(
    role: Role, name: str, pool: str | None, expires: str | None, place: Place, output: str | None
) -> None:
    """Make a token and print it: this once."""
    if pool is not None and role != "worker":
        raise UsageError("--pool is for tokens of the role worker")
    life = None if expires is None else _life(expires)
    if place.server is not None:
        from noetl.cli.remote import server

        with server(place.server) as remote:
            made = remote.post("/tokens", {"role": role, "name": name, "pool": pool, "expires_in": life})
    else:
        made = _made(place.db, role, name, pool, life)
    if output is not None:
        emit(made, output)
    else:
        click.echo(made["token"])


def _made(db: str | None, role: Role, name: str, pool: str | None, life: float | None) -> dict[str, Any]:
    from noetl.server.auth import new_token

    now = SystemClock().now()
    secret, token = new_token(role, name, now, pool=pool, expires=None if life is None else now + life)
    with opened(db, "create") as store:
        store.access.add_token(token)
    shown = {"id": token.id, "token": secret, "role": role, "name": name, "pool": pool}
    return shown | {"expires": stamp(token.expires)}


@command.command("list")
@place_option
@output_option()
def list_command(place: Place, output: str | None) -> None:
    """List tokens, also those that have ended; never their secrets."""
    if place.server is not None:
        from noetl.cli.remote import server

        with server(place.server) as remote:
            emit(remote.get("/tokens")["items"], output or "table")
        return
    with opened(place.db) as store:
        emit([_listed(one) for one in store.access.tokens()], output or "table")


@command.command("revoke")
@click.argument("token_id", metavar="ID")
@place_option
def revoke_command(token_id: str, place: Place) -> None:
    """Revoke a token by its id. Servers notice within seconds."""
    if place.server is not None:
        from noetl.cli.remote import server

        with server(place.server) as remote:
            remote.delete(f"/tokens/{token_id}")
    else:
        with opened(place.db, "write") as store:
            if not store.access.revoke_token(token_id, SystemClock().now()):
                raise NotFound(f"there is no valid token {token_id!r}: `noetl token list` shows them")
    click.echo(f"token {token_id} is revoked", err=True)


def _life(text: str) -> float:
    found = seconds(text)
    if found is None or found <= 0:
        raise UsageError(f"--expires {text}: write a duration such as 90s, 12h or 30d")
    return found


def _listed(one: Token) -> dict[str, Any]:
    return {
        "id": one.id,
        "role": one.role,
        "name": one.name,
        "pool": one.pool,
        "created": stamp(one.created),
        "expires": stamp(one.expires),
        "revoked": stamp(one.revoked),
    }
