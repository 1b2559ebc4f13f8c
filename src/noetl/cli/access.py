"""noetl token ..., noetl user ...: who can use a server. A token is printed once; only its hash is stored."""

from __future__ import annotations

import sys

import click

from noetl.cli.options import add_resource, client_and_output, client_option
from noetl.cli.output import emit, print_message
from noetl.client.client import Client
from noetl.errors import FileMissing, UsageError
from noetl.model.duration import seconds
from noetl.store.access import ROLES, Role

PEOPLE = tuple(role for role in ROLES if role != "worker")
USER_ROLE_HELP = (
    "Permissions: viewer reads, operator also starts and stops runs, author also writes playbooks, admin may do all."
)
TOKEN_ROLE_HELP = f"{USER_ROLE_HELP.removesuffix('.')}; worker executes tasks."


@click.group("token")
def token_command() -> None:
    """Create, list and revoke tokens, of a server or of its database (also before the server is started)."""


@token_command.command("create")
@click.option("--role", required=True, type=click.Choice(ROLES), help=TOKEN_ROLE_HELP)
@click.option("--name", default="", help="Name of the token.")
@click.option("--pool", help="For workers: the only pool they may work for.")
@click.option("--expires", metavar="DURATION", help="Lifetime of the token, such as 12h or 30d; default unlimited.")
@client_and_output
def create_token(
    role: Role, name: str, pool: str | None, expires: str | None, client: Client, output: str | None
) -> None:
    """Create a token and print it. It cannot be printed again."""
    if pool is not None and role != "worker":
        raise UsageError("--pool requires --role worker")
    lifetime = None if expires is None else seconds(expires)
    if expires is not None and (lifetime is None or lifetime <= 0):
        raise UsageError(f"--expires {expires}: write a duration such as 90s, 12h or 30d")
    body = {"role": role, "name": name, "pool": pool, "expires_in": lifetime}
    emit(client.tokens.add(body), output, lambda token: click.echo(token["token"]))


LIST_TOKENS_HELP = "List tokens, also expired and revoked ones, without their secrets."
REVOKE_HELP = "Revoke a token by its id. Servers notice within seconds."
add_resource(token_command, "tokens", LIST_TOKENS_HELP, REVOKE_HELP, "revoke", "ID")


@click.group("user")
def user_command() -> None:
    """Add, list and delete users who can sign in, of a server or of its database.

    Passwords are read from standard input, or prompted for on a terminal. Only their argon2id hashes are stored.
    """


@user_command.command("add")
@click.argument("name")
@click.option("--role", type=click.Choice(PEOPLE), default="viewer", show_default=True, help=USER_ROLE_HELP)
@client_option
def add_user(name: str, role: Role, client: Client) -> None:
    """Add a user."""
    from noetl.access import check_password

    if sys.stdin is None:
        raise FileMissing("cannot read the password: standard input is closed")
    if sys.stdin.isatty():
        password = click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    check_password(password)
    client.users.add({"name": name, "password": password, "role": role})
    print_message(f"user {name} ({role}) added")


DELETE_USER_HELP = "Delete a user, and end all sessions of the user."
add_resource(user_command, "users", "List the users who can sign in.", DELETE_USER_HELP)
