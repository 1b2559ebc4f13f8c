"""Where a verb acts: on a database, or on a server."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import click

from noetl.errors import UsageError
from noetl.settings import ServerAddress, server_address

DB_HELP = "The database: a file, or the URL of a Postgres database; else NOETL_DB, else ./.noetl/noetl.db."
SERVER_HELP = "Act on this server and not on a database; else NOETL_SERVER. NOETL_TOKEN has the token."

INSECURE_HELP = "Allow http:// to another machine, which exposes the token; else NOETL_INSECURE."


class Place(NamedTuple):
    """A database, named or the default one; or a server."""

    db: str | None = None
    server: ServerAddress | None = None

    @property
    def flags(self) -> list[str]:
        """What to type to act at the same place again."""
        if self.server is not None:
            return ["--server", self.server.url]
        return ["--db", self.db] if self.db else []


def place_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--db PATH` and `--server URL`; the verb gets `place`."""

    @click.option("--db", metavar="PATH", help=DB_HELP)
    @click.option("--server", metavar="URL", help=SERVER_HELP)
    @click.option("--insecure", is_flag=True, help=INSECURE_HELP)
    @wraps(function)
    def verb(*args: Any, db: str | None, server: str | None, insecure: bool, **kwargs: Any) -> Any:
        if db and server:
            raise UsageError("--db and --server: a verb acts on one of them")
        address = None if db else server_address(server, insecure=insecure)
        return function(*args, place=Place(db, address), **kwargs)

    return verb
