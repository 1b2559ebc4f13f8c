"""Snowflake as the kinds `snowflake` and `transfer` use it: sessions, values in statements, and errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import msgspec

from noetl.model.outcome import Failure
from noetl.sql import quoted
from noetl.tools.rows.thread import Stop

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection
    from snowflake.connector.cursor import SnowflakeCursor
    from snowflake.connector.errors import Error

    from noetl.sql import Sql

LOGIN_SECONDS = 20
FIELDS = ("account", "user", "password", "warehouse", "database", "schema", "role", "host", "port", "protocol")
MORE_FIELDS = ("authenticator", "token", "private_key", "private_key_passphrase", "passcode")
SESSION = {"CLIENT_TELEMETRY_ENABLED": False, "CLIENT_OUT_OF_BAND_TELEMETRY_ENABLED": False}
TYPED_LITERAL = re.compile(r"(?i)\b(?:interval|date|time|timestamp(?:_\w+)?)\s*\Z")
"""After these words Snowflake takes a literal only."""
BINDS = frozenset(["SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "MERGE", "CALL", "VALUES"])
"""Statements that take bound values everywhere else."""
PLACES = {
    "account": r"[A-Za-z0-9][A-Za-z0-9._-]*",
    "host": r"[A-Za-z0-9][A-Za-z0-9._-]*",
    "protocol": r"https?",
    "authenticator": r"https?://[A-Za-z0-9._-]+(:[0-9]+)?(/[^\s\\]*)?|[A-Za-z0-9_-]+",
}
"""Fields of a credential that say where the connector sends requests."""
FILE_COMMANDS = frozenset(["PUT", "GET"])
CANCELED, LOCKED = 604, 625
SIGNED_OUT = frozenset([390104, 390111, 390112, 390114])
"""The session has ended: the statement was not run."""


# -- sessions ---------------------------------------------------------------------------------------------------------


def login(fields: Mapping[str, Any]) -> SnowflakeConnection:
    """A new session with the fields of a credential."""
    import logging

    import snowflake.connector
    from snowflake.connector.errors import Error

    logging.getLogger("snowflake.connector").setLevel(logging.CRITICAL)  # it logs statements and addresses
    settings = {name: fields[name] for name in (*FIELDS, *MORE_FIELDS) if fields.get(name) is not None}
    unknown = next((name for name in fields if name not in (*FIELDS, *MORE_FIELDS, "kind")), None)
    if unknown is not None:
        raise Failure("input", f"the credential for snowflake has a field {unknown!r} that means nothing to it")
    for name in ("account", "user"):
        if name not in settings:
            raise Failure("auth", f"the credential for snowflake has no `{name}`")
    _check_place(settings)
    if "private_key" in settings:
        settings["private_key"] = _private_key(settings["private_key"], settings.pop("private_key_passphrase", None))
    if "port" in settings:
        settings["port"] = int(settings["port"])
    try:
        return snowflake.connector.connect(
            **settings,
            paramstyle="qmark",
            application="noetl",
            login_timeout=LOGIN_SECONDS,
            session_parameters=SESSION,
            platform_detection_timeout_seconds=0,
            log_imported_packages_in_telemetry=False,
        )
    except Error as error:
        raise _shut_out(error, str(settings.get("host") or settings["account"])) from None


def _check_place(settings: Mapping[str, Any]) -> None:
    """Refuse what would lead elsewhere than to a host that anything may be sent to: the connector makes the address of
    an account, and asks an `authenticator` that is an address."""
    from noetl.addresses import check_host_blocking

    for name, pattern in PLACES.items():
        if name in settings and not re.fullmatch(pattern, str(settings[name])):
            raise Failure("input", f"`{name}` of the credential for snowflake is not valid")
    hosts = [settings.get("host"), re.match(r"https?://([^/:?#@]+)", str(settings.get("authenticator", "")))]
    for host in hosts:
        if host:
            check_host_blocking(str(host if isinstance(host, str) else host[1]))


def _private_key(text: str | bytes, passphrase: str | None) -> bytes:
    """The key as the connector wants it, from PEM."""
    from cryptography.hazmat.primitives import serialization

    raw = text.encode() if isinstance(text, str) else text
    try:
        key = serialization.load_pem_private_key(raw, passphrase.encode() if passphrase else None)
    except (ValueError, TypeError):
        message = "`private_key` of the credential is no key in PEM, or `private_key_passphrase` does not open it"
        raise Failure("auth", message) from None
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.DER, form, serialization.NoEncryption())


# -- statements -------------------------------------------------------------------------------------------------------


class Session:
    """A connection in the hands of one call."""

    def __init__(self, connection: SnowflakeConnection, stop: Stop) -> None:
        self.connection, self.stop = connection, stop
        self.running: tuple[str, str] | None = None
        """The statement on its way and the number of its request."""
        self.interrupted = False
        self.clean = True
        """Whether the session is as it was when the call got it."""
        stop.by(self.abort)

    def abort(self) -> None:
        """End the running statement on the server, from another thread."""
        self.interrupted = True
        if self.running is not None:
            text, request = self.running
            self.connection._cancel_query(text, request)  # type: ignore[arg-type]

    def execute(self, text: str, values: list[Any] | dict[str, Any] | None = None) -> SnowflakeCursor:
        from snowflake.connector.errors import Error

        self.stop.check()
        cursor = self.connection.cursor()
        text, request = text.strip(), str(uuid4())
        self.running = (text, request)
        try:
            cursor.execute(text, values or None, _statement_params={"requestId": request}, _is_put_get=False)
        except Error as error:
            self.stop.check()
            raise failure(error) from None
        finally:
            self.running = None
        return cursor


class Written(NamedTuple):
    """A statement with what goes beside it."""

    text: str
    values: list[Any]


def written(sql: Sql) -> Written:
    """A statement for the connector: text bound wherever Snowflake takes it so, numbers as they are."""
    from noetl.sql import write

    values: list[Any] = []
    binds = first_word(sql) in BINDS
    only_literals = iter(_only_literals(sql))

    def value(one: Any) -> str:
        if next(only_literals) or not binds or not isinstance(one, (str, bytes)):
            return _nested(one, values, binds)
        values.append(one)
        return "?"

    return Written(write(sql, value), values)


def _only_literals(sql: Sql) -> Iterator[bool]:
    """For each value in its order, whether it stands after a word such as `INTERVAL`."""
    from noetl.sql import InList, Value

    before: Any = ""
    for part in sql.parts:
        if isinstance(part, Value):
            yield isinstance(before, str) and TYPED_LITERAL.search(before) is not None
        elif isinstance(part, InList):
            yield from (False for item in part.items for _ in (item if isinstance(item, list) else [item]))
        before = part


def _nested(value: Any, values: list[Any], binds: bool) -> str:
    """Lists and maps are JSON; anything else is a literal."""
    if not isinstance(value, (list, dict)):
        return literal(value)
    text = msgspec.json.encode(value).decode()
    if not binds:
        return f"PARSE_JSON({literal(text)})"
    values.append(text)
    return "PARSE_JSON(?)"


def literal(value: Any) -> str:
    """A value as Snowflake reads it in a statement."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float():
            shown = repr(value)
            return f"'{shown}'::FLOAT" if "n" in shown else shown
        case bytes():
            return f"TO_BINARY('{value.hex()}', 'HEX')"
    return "'" + str(value).replace("\\", "\\\\").replace("'", "''") + "'"


def first_word(sql: Sql) -> str:
    """What a statement does, by its first word. Comments before it are passed over."""
    text = "".join(part if isinstance(part, str) else "?" for part in sql.parts)
    text = re.sub(r"(?s)\A(?:\s+|--[^\n]*|//[^\n]*|/\*.*?\*/|\()*", "", text)
    found = re.match(r"[A-Za-z]+", text)
    return found[0].upper() if found else ""


def name(text: str) -> str:
    """A name as its author would write it without quotes, part by part: `sales.orders` is `SALES.ORDERS`."""
    parts = text.split(".")
    if not all(parts) or "\0" in text:
        raise Failure("input", f"{text!r} is no name of a table or column")
    return quoted(tuple(folded(part) for part in parts))


def folded(part: str) -> str:
    """Upper case if it needs no quotes, as Snowflake does it."""
    return part.upper() if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$]*", part) else part


# -- errors -----------------------------------------------------------------------------------------------------------


def failure(error: Error) -> Failure:
    """The outcome of a statement that failed."""
    from snowflake.connector.errors import DatabaseError, InterfaceError, OperationalError

    code, state = error.errno, error.sqlstate
    extra = about(code, state, error.sfqid)
    text = _spoken(error)
    if code == CANCELED:
        return Failure("cancelled", f"snowflake: {text}", extra=extra)
    lost = isinstance(error, (OperationalError, InterfaceError)) or not isinstance(error, DatabaseError)
    if lost or code in SIGNED_OUT:
        return Failure("connect", f"the connection to snowflake broke: {text}", retryable=True, extra=extra)
    line = re.search(r"(?i)\bline:? (\d+)", text)
    place = {"line": int(line[1])} if line else {}
    return Failure("sql", f"snowflake: {text}", retryable=code == LOCKED, extra=extra, **place)


def _shut_out(error: Error, where: str) -> Failure:
    """The outcome where no session came about."""
    extra = about(error.errno, error.sqlstate, None)
    text = _spoken(error)
    refused = str(error.errno or "").startswith(("390", "394")) or (error.sqlstate or "").startswith("28")
    if refused or "Incorrect username" in text:
        return Failure("auth", f"snowflake refuses the credential: {text}", extra=extra)
    return Failure("connect", f"snowflake can't be reached at {where}: {text}", retryable=True, extra=extra)


def _spoken(error: Error) -> str:
    """What the server said, without the number and the id that the connector puts before it."""
    text = error.raw_msg or error.msg or str(error)
    return re.sub(r"\A\d{6} \(\w+\): (?:[0-9a-f-]{30,}: )?", "", text).strip()


def about(code: int | None, state: str | None, query: str | None) -> dict[str, Any]:
    """`outcome.snowflake`."""
    shown = f"{code:06d}" if isinstance(code, int) and code >= 0 else None
    return {"snowflake": {"code": shown, "sqlstate": None if state in (None, "n/a") else state, "query_id": query}}
