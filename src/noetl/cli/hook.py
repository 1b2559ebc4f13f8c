"""noetl hook ...: signed requests that start playbooks. A generated secret is printed once."""

from __future__ import annotations

import click

from noetl.cli.inputs import secret_text, split_version
from noetl.cli.output import emit, output_option
from noetl.cli.target import client_option
from noetl.client.ports import Client, Json
from noetl.errors import UsageError

SECRET_HELP = "Secret of the sender, read from a file or (-) from standard input; default a generated one."


@click.group("hook")
def command() -> None:
    """Start registered playbooks by signed requests: POST /api/v1/hooks/NAME of a server.

    The sender signs the time and the request body with the secret of the hook. The secret is encrypted like a
    credential.
    """


@command.command("add")
@click.argument("name")
@click.argument("path", metavar="PATH[@VERSION]")
@click.option("--secret", metavar="@FILE or -", help=SECRET_HELP)
@client_option
@output_option()
def add_command(name: str, path: str, secret: str | None, client: Client, output: str | None) -> None:
    """Add or change a hook. A generated secret is printed, and cannot be printed again."""
    if secret is not None and secret != "-" and not secret.startswith("@"):
        raise UsageError("--secret: the list of processes would expose it; use @FILE, or - for standard input")
    text = None if secret is None else secret_text("--secret", secret, "Secret")
    _print(client.hooks.put(name, *split_version(path), text), output)


@command.command("list")
@client_option
@output_option()
def list_command(client: Client, output: str | None) -> None:
    """List hooks without their secrets."""
    emit(client.hooks.list(), output or "table")


@command.command("rotate")
@click.argument("name")
@client_option
@output_option()
def rotate_command(name: str, client: Client, output: str | None) -> None:
    """Replace the secret of a hook by a generated one and print it. The old secret is invalid at once."""
    _print(client.hooks.rotate(name), output)


@command.command("delete")
@click.argument("name")
@client_option
def delete_command(name: str, client: Client) -> None:
    """Delete a hook and its secret."""
    client.hooks.delete(name)
    click.echo(f"hook {name} is deleted", err=True)


def _print(hook: Json, output: str | None) -> None:
    if output is not None:
        emit(hook, output)
    elif hook["secret"]:
        click.echo(hook["secret"])
    click.echo(f"hook {hook['name']} starts {hook['path']}: POST /api/v1/hooks/{hook['name']}", err=True)
