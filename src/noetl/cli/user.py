"""noetl user ...: people who can sign in to a server."""

from __future__ import annotations

import sys

import click

from noetl.cli.output import emit, output_option
from noetl.cli.target import client_option
from noetl.client.ports import Client
from noetl.store.access import ROLES, Role

PEOPLE = tuple(role for role in ROLES if role != "worker")
ROLE_HELP = (
    "Permissions: viewer reads, operator also starts and stops runs, author also writes playbooks, admin may do all."
)


@click.group("user")
def command() -> None:
    """Add, list and delete users who can sign in, of a server or of its database.

    Passwords are read from standard input, or prompted for on a terminal. Only their argon2id hashes are stored.
    """


@command.command("add")
@click.argument("name")
@click.option("--role", type=click.Choice(PEOPLE), default="viewer", show_default=True, help=ROLE_HELP)
@client_option
def add_command(name: str, role: Role, client: Client) -> None:
    """Add a user."""
    from noetl.server import passwords

    if sys.stdin.isatty():
        password = click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    passwords.check(password)
    client.users.add(name, password, role)
    click.echo(f"user {name} ({role}) is added", err=True)


@command.command("list")
@client_option
@output_option()
def list_command(client: Client, output: str | None) -> None:
    """List the users who can sign in."""
    emit(client.users.list(), output or "table")


@command.command("delete")
@click.argument("name")
@client_option
def delete_command(name: str, client: Client) -> None:
    """Delete a user, and end all sessions of the user."""
    client.users.delete(name)
    click.echo(f"user {name} is deleted", err=True)
