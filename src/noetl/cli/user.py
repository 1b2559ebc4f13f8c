"""noetl user ...: people who can sign in to a server."""

from __future__ import annotations

import sys
from typing import Any

import click

from noetl.cli.local import opened, stamp
from noetl.cli.output import emit, output_option
from noetl.cli.place import Place, place_option
from noetl.clock import SystemClock
from noetl.errors import Conflict, NotFound, UsageError
from noetl.store.access import ROLES, Role, User

PEOPLE = tuple(role for role in ROLES if role != "worker")
ROLE_HELP = "viewer looks, operator also starts and stops, author also writes playbooks, admin does all"


@click.group("user")
def command() -> None:
    """Add, list and remove people who can sign in: of a database, or of a server.

    Passwords are read from standard input, or asked for on a terminal. Only their argon2id hashes are kept.
    """


@command.command("add")
@click.argument("name")
@click.option("--role", type=click.Choice(PEOPLE), default="viewer", show_default=True, help=f"{ROLE_HELP}.")
@place_option
def add_command(name: str, role: Role, place: Place) -> None:
    """Add a person."""
    from noetl.server import passwords

    password = _password(name)
    passwords.check(password)
    if place.server is not None:
        from noetl.cli.remote import server

        with server(place.server) as remote:
            remote.post("/users", {"name": name, "password": password, "role": role})
    else:
        _check_name(name)
        user = User(name, role, passwords.hashed(password), SystemClock().now())
        with opened(place.db, "create") as store:
            if not store.access.put_user(user, new=True):
                raise Conflict(f"there is a user {name!r} already")
    click.echo(f"user {name} ({role}) is added", err=True)


@command.command("list")
@place_option
@output_option()
def list_command(place: Place, output: str | None) -> None:
    """List the people who can sign in."""
    if place.server is not None:
        from noetl.cli.remote import server

        with server(place.server) as remote:
            emit(remote.get("/users")["items"], output or "table")
        return
    with opened(place.db) as store:
        emit([_listed(one) for one in store.access.users()], output or "table")


@command.command("delete")
@click.argument("name")
@place_option
def delete_command(name: str, place: Place) -> None:
    """Remove a person, and end the sessions."""
    if place.server is not None:
        from noetl.cli.remote import server

        with server(place.server) as remote:
            remote.delete(f"/users/{name}")
    else:
        with opened(place.db, "write") as store:
            if not store.access.delete_user(name):
                raise NotFound(f"there is no user {name!r}: `noetl user list` shows them")
    click.echo(f"user {name} is deleted", err=True)


def _check_name(name: str) -> None:
    from noetl.server.roles import is_name

    if not is_name(name):
        raise UsageError(f"{name!r} can't be the name of a user: use letters, digits and _ . @ -")


def _password(name: str) -> str:
    if sys.stdin.isatty():
        asked: str = click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True)
        return asked
    return sys.stdin.readline().rstrip("\r\n")


def _listed(one: User) -> dict[str, Any]:
    return {"name": one.name, "role": one.role, "created": stamp(one.created)}
