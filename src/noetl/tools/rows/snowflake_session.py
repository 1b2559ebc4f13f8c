"""Sessions, literals and errors of Snowflake, for the kinds `snowflake` and `transfer`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import msgspec

from noetl.model.outcome import Failure
from noetl.sql import quoted
from noetl.tools.rows.blocking import Cancellation

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection
    from snowflake.connector.cursor import SnowflakeCursor
    from snowflake.connector.errors import Error

    from noetl.sql import Sql

LOGIN_SECONDS = 20
FIELDS = ("account", "user", "password", "warehouse", "database", "schema", "role", "host", "port", "protocol")
AUTH_FIELDS = ("authenticator", "token", "private_key", "private_key_passphrase", "passcode")
SESSION = {"CLIENT_TELEMETRY_ENABLED": False, "CLIENT_OUT_OF_BAND_TELEMETRY_ENABLED": False}
TYPED_LITERAL = re.compile(r"(?i)\b(?:interval|date|time|timestamp(?:_\w+)?)\s*\Z")
"""After these words Snowflake accepts only a literal."""
BINDS = frozenset(["SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "MERGE", "CALL", "VALUES"])
"""Statements that accept bound values everywhere else."""
HOST_FIELDS = {
    "account": r"[A-Za-z0-9][A-Za-z0-9._-]*",
    "host": r"[A-Za-z0-9][A-Za-z0-9._-]*",
    "protocol": r"https?",
    "authenticator": r"https?://[A-Za-z0-9._-]+(:[0-9]+)?(/[^\s\\]*)?|[A-Za-z0-9_-]+",
}
"""Fields of a credential that determine where the connector sends requests."""
FILE_COMMANDS = frozenset(["PUT", "GET"])
CANCELED, LOCKED = 604, 625
SESSION_ENDED = frozenset([390104, 390111, 390112, 390114])
"""The session has ended: the statement was not run."""


# -- sessions ---------------------------------------------------------------------------------------------------------


def login(fields: Mapping[str, Any]) -> SnowflakeConnection:
    """A new session with the fields of a credential."""
    import logging

    import snowflake.connector
    from snowflake.connector.errors import Error

    logging.getLogger("snowflake.connector").setLevel(logging.CRITICAL)  # it logs statements and addresses
    settings = {name: fields[name] for name in (*FIELDS, *AUTH_FIELDS) if fields.get(name) is not None}
    unknown = next((name for name in fields if name not in (*FIELDS, *AUTH_FIELDS, "kind")), None)
    if unknown is not None:
        raise Failure("input", f"the credential for snowflake has an unknown field {unknown!r}")
    for name in ("account", "user"):
        if name not in settings:
            raise Failure("auth", f"the credential for snowflake has no `{name}`")
    _check_hosts(settings)
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
        raise _login_failure(error, str(settings.get("host") or settings["account"])) from None


def _check_hosts(settings: Mapping[str, Any]) -> None:
    """Failure for a host that requests are not allowed to: the connector builds a host name from the account, and
    sends requests to an `authenticator` that is a URL."""
    from noetl.addresses import check_host_blocking

    for name, pattern in HOST_FIELDS.items():
        if name in settings and not re.fullmatch(pattern, str(settings[name])):
            raise Failure("input", f"`{name}` of the credential for snowflake is not valid")
    hosts = [settings.get("host"), re.match(r"https?://([^/:?#@]+)", str(settings.get("authenticator", "")))]
    for host in hosts:
        if host:
            check_host_blocking(str(host if isinstance(host, str) else host[1]))


def _private_key(text: str | bytes, passphrase: str | None) -> bytes:
    """The key in DER, from PEM."""
    from cryptography.hazmat.primitives import serialization

    raw = text.encode() if isinstance(text, str) else text
    try:
        key = serialization.load_pem_private_key(raw, passphrase.encode() if passphrase else None)
    except (ValueError, TypeError):
        message = "`private_key` of the credential is not a PEM key, or `private_key_passphrase` is wrong"
        raise Failure("auth", message) from None
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.DER, form, serialization.NoEncryption())


# -- statements -------------------------------------------------------------------------------------------------------


class SnowflakeSession:
    """A connection that one call uses."""

    def __init__(self, connection: SnowflakeConnection, cancellation: Cancellation) -> None:
        self.connection, self.cancellation = connection, cancellation
        self.running: tuple[str, str] | None = None
        """The running statement and the id of its request."""
        self.interrupted = False
        self.clean = True
        """Whether the call left the state of the session unchanged."""
        cancellation.on_cancel(self.abort)

    def abort(self) -> None:
        """Cancel the running statement on the server, from another thread."""
        self.interrupted = True
        if self.running is not None:
            text, request = self.running
            self.connection._cancel_query(text, request)  # type: ignore[arg-type]

    def execute(self, text: str, values: list[Any] | dict[str, Any] | None = None) -> SnowflakeCursor:
        from snowflake.connector.errors import Error

        self.cancellation.check()
        cursor = self.connection.cursor()
        text, request = text.strip(), str(uuid4())
        self.running = (text, request)
        try:
            cursor.execute(text, values or None, _statement_params={"requestId": request}, _is_put_get=False)
        except Error as error:
            self.cancellation.check()
            raise statement_failure(error) from None
        finally:
            self.running = None
        return cursor


class BoundStatement(NamedTuple):
    text: str
    values: list[Any]


def bind(sql: Sql) -> BoundStatement:
    """A statement with text bound wherever Snowflake accepts that, and numbers as literals."""
    from noetl.sql import write

    values: list[Any] = []
    binds = first_word(sql) in BINDS
    only_literals = iter(_only_literals(sql))

    def render(value: Any) -> str:
        if next(only_literals) or not binds or not isinstance(value, (str, bytes)):
            return _nested(value, values, binds)
        values.append(value)
        return "?"

    return BoundStatement(write(sql, render), values)


def _only_literals(sql: Sql) -> Iterator[bool]:
    """For each value, whether it follows a word such as `INTERVAL`."""
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
    """A value as a Snowflake literal."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float():
            text = repr(value)
            return f"'{text}'::FLOAT" if "n" in text else text
        case bytes():
            return f"TO_BINARY('{value.hex()}', 'HEX')"
    return "'" + str(value).replace("\\", "\\\\").replace("'", "''") + "'"


def first_word(sql: Sql) -> str:
    """The first word of a statement in upper case, after comments."""
    text = "".join(part if isinstance(part, str) else "?" for part in sql.parts)
    text = re.sub(r"(?s)\A(?:\s+|--[^\n]*|//[^\n]*|/\*.*?\*/|\()*", "", text)
    word = re.match(r"[A-Za-z]+", text)
    return word[0].upper() if word else ""


def name(text: str) -> str:
    """The quoted name that Snowflake makes of an unquoted one: `sales.orders` is `"SALES"."ORDERS"`."""
    parts = text.split(".")
    if not all(parts) or "\0" in text:
        raise Failure("input", f"{text!r} can't be the name of a table or column")
    return quoted(tuple(folded(part) for part in parts))


def folded(part: str) -> str:
    """In upper case if it needs no quotes, as in Snowflake."""
    return part.upper() if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$]*", part) else part


# -- errors -----------------------------------------------------------------------------------------------------------


def statement_failure(error: Error) -> Failure:
    from snowflake.connector.errors import DatabaseError, InterfaceError, OperationalError

    code, state = error.errno, error.sqlstate
    extra = snowflake_extra(code, state, error.sfqid)
    text = _message(error)
    if code == CANCELED:
        return Failure("cancelled", f"snowflake: {text}", extra=extra)
    lost = isinstance(error, (OperationalError, InterfaceError)) or not isinstance(error, DatabaseError)
    if lost or code in SESSION_ENDED:
        return Failure("connect", f"the connection to snowflake broke: {text}", retryable=True, extra=extra)
    line = re.search(r"(?i)\bline:? (\d+)", text)
    place = {"line": int(line[1])} if line else {}
    return Failure("sql", f"snowflake: {text}", retryable=code == LOCKED, extra=extra, **place)


def _login_failure(error: Error, where: str) -> Failure:
    extra = snowflake_extra(error.errno, error.sqlstate, None)
    text = _message(error)
    refused = str(error.errno or "").startswith(("390", "394")) or (error.sqlstate or "").startswith("28")
    if refused or "Incorrect username" in text:
        return Failure("auth", f"snowflake refuses the credential: {text}", extra=extra)
    return Failure("connect", f"snowflake can't be reached at {where}: {text}", retryable=True, extra=extra)


def _message(error: Error) -> str:
    """The message of the server, without the number and id that the connector adds."""
    text = error.raw_msg or error.msg or str(error)
    return re.sub(r"\A\d{6} \(\w+\): (?:[0-9a-f-]{30,}: )?", "", text).strip()


def snowflake_extra(code: int | None, state: str | None, query: str | None) -> dict[str, Any]:
    """`outcome.snowflake`."""
    text = f"{code:06d}" if isinstance(code, int) and code >= 0 else None
    return {"snowflake": {"code": text, "sqlstate": None if state in (None, "n/a") else state, "query_id": query}}
