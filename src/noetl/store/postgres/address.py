"""The address of a Postgres store: `postgresql://USER:PASSWORD@HOST:PORT/DATABASE?schema=NAME`, or anything else that
libpq accepts after `postgresql://`. The default schema is `noetl`.
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
"""A server that does not respond is detected within half a minute."""


class Address(NamedTuple):
    conninfo: str
    schema: str
    redacted: str  # for messages: without the password
    password: str

    @classmethod
    def parse(cls, url: str) -> Address:
        parts = urlsplit(url)
        options = parse_qsl(parts.query, keep_blank_values=True)
        schema = dict(options).get("schema") or SCHEMA
        query = urlencode([(name, value) for name, value in options if name != "schema"])
        try:
            parameters = conninfo_to_dict(urlunsplit(parts._replace(query=query)))
        except ProgrammingError:  # its message contains the password
            raise UsageError(
                "the address of the database is invalid: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
                "with special characters of the password as %XX"
            ) from None
        host, port, database = (parameters.get(name) or "" for name in ("host", "port", "dbname"))
        redacted = f"postgresql://{host}{f':{port}' if port else ''}/{database}"
        password = str(parameters.get("password") or "")
        return cls(make_conninfo("", **{**DEFAULTS, **parameters}), schema, redacted, password)

    def without_password(self, text: str) -> str:
        return text.replace(self.password, "***") if self.password else text
