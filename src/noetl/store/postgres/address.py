"""The address of a Postgres store: `postgresql://USER:PASSWORD@HOST:PORT/DATABASE?schema=NAME`, or anything else that
libpq understands behind `postgresql://`. The schema is `noetl` where none is named.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from noetl.errors import UsageError

SCHEMA = "noetl"
DEFAULTS: dict[str, str | int] = {
    "application_name": "noetl",
    "client_encoding": "utf-8",
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""A server that has gone without a word is noticed within half a minute."""


class Address(NamedTuple):
    """Where a store is."""

    conninfo: str
    schema: str
    shown: str
    """For messages: without password."""
    password: str | None

    @classmethod
    def parse(cls, url: str) -> Address:
        parts = urlsplit(url)
        options = parse_qsl(parts.query, keep_blank_values=True)
        schema = dict(options).get("schema") or SCHEMA
        query = urlencode([(name, value) for name, value in options if name != "schema"])
        try:
            given = conninfo_to_dict(urlunsplit(parts._replace(query=query)))
        except ProgrammingError:  # its words would show the password
            raise UsageError(
                "the address of the database can't be read: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
                "special characters in the password as %XX"
            ) from None
        shown = f"postgresql://{given.get('host') or ''}{_port(given.get('port'))}/{given.get('dbname') or ''}"
        password = given.get("password")
        return cls(make_conninfo("", **{**DEFAULTS, **given}), schema, shown, str(password) if password else None)

    def hidden(self, text: str) -> str:
        """The text without the password."""
        return text.replace(self.password, "***") if self.password else text


def _port(port: str | int | None) -> str:
    return f":{port}" if port else ""
