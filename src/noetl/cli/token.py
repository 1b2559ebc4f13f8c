"""noetl token ...: tokens of a server. A token is printed once, when it is created; only its hash is stored."""

from __future__ import annotations

import click

from noetl.cli.output import emit, emit_or_echo, output_option
from noetl.cli.target import client_option
from noetl.client.ports import Client
from noetl.errors import UsageError
from noetl.model.duration import seconds
from noetl.store.access import ROLES, Role

ROLE_HELP = (
    "Permissions: viewer reads, operator also starts and stops runs, author also writes playbooks, admin may do all; "
    "worker executes tasks."
)


@click.group("token")
def command() -> None:
    """Create, list and revoke tokens, of a server or of its database (also before the server is started)."""


@command.command("create")
@click.option("--role", required=True, type=click.Choice(ROLES), help=ROLE_HELP)
@click.option("--name", default="", help="Name that tells the token from others.")
@click.option("--pool", help="For workers: the only pool they may work for.")
@click.option("--expires", metavar="DURATION", help="Lifetime of the token, such as 12h or 30d; default unlimited.")
@client_option
@output_option()
def create_command(
    role: Role, name: str, pool: str | None, expires: str | None, client: Client, output: str | None
) -> None:
    """Create a token and print it. It cannot be printed again."""
    if pool is not None and role != "worker":
        raise UsageError("--pool requires --role worker")
    lifetime = None if expires is None else seconds(expires)
    if expires is not None and (lifetime is None or lifetime <= 0):
        raise UsageError(f"--expires {expires}: write a duration such as 90s, 12h or 30d")
    token = client.tokens.create(role, name, pool, lifetime)
    emit_or_echo(token, output, token["token"])


@command.command("list")
@client_option
@output_option()
def list_command(client: Client, output: str | None) -> None:
    """List tokens, also expired and revoked ones, without their secrets."""
    emit(client.tokens.list(), output or "table")


@command.command("revoke")
@click.argument("token_id", metavar="ID")
@client_option
def revoke_command(token_id: str, client: Client) -> None:
    """Revoke a token by its id. Servers notice within seconds."""
    client.tokens.revoke(token_id)
    click.echo(f"token {token_id} is revoked", err=True)
