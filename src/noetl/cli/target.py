"""What a verb works on: `--db` is a database, `--server` a server. Verbs that all resources share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.output import emit, output_option
from noetl.errors import UsageError
from noetl.settings import ServerAddress, server_address

if TYPE_CHECKING:
    from noetl.client.ports import Client, Items

DB_HELP = "Database file or Postgres URL; default NOETL_DB, then ./.noetl/noetl.db."
SERVER_HELP = "Server to use instead of a database; default NOETL_SERVER. Its token is read from NOETL_TOKEN."
INSECURE_HELP = "Allow http:// to another machine, which exposes the token; default NOETL_INSECURE."


def client_option(function: Callable[..., int | None]) -> Callable[..., None]:
    """`--db PATH` and `--server URL`; the verb gets `client`, and may return an exit code."""

    @target_options
    @wraps(function)
    def verb(*args: Any, db: str | None, address: ServerAddress | None, **kwargs: Any) -> None:
        client = open_client(db, address)
        try:
            code = function(*args, client=client, **kwargs)
        finally:
            client.close()
        if code:
            click.get_current_context().exit(code)

    return verb


def target_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same options; the verb gets `db` and `address`, of which at most one is set."""

    @click.option("--db", metavar="PATH", help=DB_HELP)
    @click.option("--server", metavar="URL", help=SERVER_HELP)
    @click.option("--insecure", is_flag=True, help=INSECURE_HELP)
    @wraps(function)
    def verb(*args: Any, db: str | None, server: str | None, insecure: bool, **kwargs: Any) -> Any:
        if db and server:
            raise UsageError("--db and --server exclude each other: use one of them")
        address = None if db else server_address(server, insecure=insecure)
        return function(*args, db=db, address=address, **kwargs)

    return verb


def open_client(db: str | None, address: ServerAddress | None) -> Client:
    if address is None:
        from noetl.client.local import LocalClient

        return LocalClient(db, warn)
    from noetl.client.http import HttpClient

    return HttpClient(address, warn)


def warn(line: str) -> None:
    click.echo(line, err=True)


def client_and_output(function: Callable[..., int | None]) -> Callable[..., None]:
    """`--db`, `--server` and `-o`; the verb gets `client` and `output`."""
    return client_option(output_option()(function))


def add_list(group: click.Group, items: Callable[[Client], Items], help: str) -> None:
    """Add `list`, which prints all items of a resource."""

    @group.command("list", help=help)
    @client_and_output
    def list_command(client: Client, output: str | None) -> None:
        emit(items(client), output or "table")


def add_removal(
    group: click.Group, verb: str, remove: Callable[[Client, str], None], help: str, metavar: str = "NAME"
) -> None:
    """Add `delete` or `revoke`, which removes one item of a resource."""

    @group.command(verb, help=help)
    @click.argument("name", metavar=metavar)
    @client_option
    def removal_command(name: str, client: Client) -> None:
        remove(client, name)
        click.echo(f"{group.name} {name} is {verb}d", err=True)
