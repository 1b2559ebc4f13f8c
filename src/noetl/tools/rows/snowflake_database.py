"""Snowflake for the kinds `snowflake` and `transfer`: sessions, errors, and SQL."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

import msgspec
import snowflake.connector
from cryptography.hazmat.primitives import serialization
from snowflake.connector import SnowflakeConnection
from snowflake.connector.cursor import SnowflakeCursor
from snowflake.connector.errors import DatabaseError, Error, InterfaceError, OperationalError

from noetl.addresses import check_host_blocking
from noetl.model.outcome import Failure
from noetl.sql.statements import InList, Sql, Value, WrittenSql, first_words, quoted, simple_literal, written
from noetl.tools.rows.blocking import Cancellation, in_thread

LOGIN_SECONDS = 20
MAX_IDLE = 8
IDLE_SECONDS = 300.0
UNCHECKED_SECONDS = 30.0
FIELDS = (
    "account", "user", "password", "warehouse", "database", "schema", "role", "host", "port", "protocol",
    "authenticator", "token", "private_key", "private_key_passphrase", "passcode",
)  # fmt: skip
HOST_FIELDS = {  # fields of a credential that determine where the connector sends requests
    "account": r"[A-Za-z0-9][A-Za-z0-9._-]*",
    "host": r"[A-Za-z0-9][A-Za-z0-9._-]*",
    "protocol": r"https?",
    "authenticator": r"https?://[A-Za-z0-9._-]+(:[0-9]+)?(/[^\s\\]*)?|[A-Za-z0-9_-]+",
}
CANCELED, LOCKED = 604, 625
SESSION_ENDED = frozenset([390104, 390111, 390112, 390114])  # the session has ended: the statement was not run
# After these words Snowflake accepts only a literal. Everywhere else, these statements accept bound values.
TYPED_LITERAL = re.compile(r"(?i)\b(?:interval|date|time|timestamp(?:_\w+)?)\s*\Z")
BINDS = frozenset(["SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "MERGE", "CALL", "VALUES"])
BATCH_ROWS, BATCH_VALUES = 5_000, 30_000  # Snowflake accepts 16,384 rows and about 65,000 values in one statement
CHANGES = frozenset(["INSERT", "UPDATE", "DELETE", "MERGE"])
READS = frozenset(["SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "LIST", "LS", "CALL", "VALUES"])
STATELESS = (CHANGES | READS) - {"CALL"}


def login(fields: Mapping[str, Any]) -> SnowflakeConnection:
    logging.getLogger("snowflake.connector").setLevel(logging.CRITICAL)  # it logs statements and addresses
    settings = {name: fields[name] for name in FIELDS if fields.get(name) is not None}
    if unknown := [name for name in fields if name not in (*FIELDS, "kind")]:
        raise Failure("input", f"the credential for snowflake has an unknown field {unknown[0]!r}")
    for name in ("account", "user"):
        if name not in settings:
            raise Failure("auth", f"the credential for snowflake has no `{name}`")
    for name, pattern in HOST_FIELDS.items():
        if name in settings and not re.fullmatch(pattern, str(settings[name])):
            raise Failure("input", f"`{name}` of the credential for snowflake is not valid")
    if settings.get("host"):
        check_host_blocking(str(settings["host"]))
    if url := re.match(r"https?://([^/:?#@]+)", str(settings.get("authenticator", ""))):
        check_host_blocking(url[1])
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
            session_parameters={"CLIENT_TELEMETRY_ENABLED": False, "CLIENT_OUT_OF_BAND_TELEMETRY_ENABLED": False},
            platform_detection_timeout_seconds=0,
            log_imported_packages_in_telemetry=False,
        )
    except Error as error:
        code, state, text = error.errno, error.sqlstate or "", _message(error)
        extra = snowflake_extra(code, error.sqlstate, None)
        if str(code or "").startswith(("390", "394")) or state.startswith("28") or "Incorrect username" in text:
            raise Failure("auth", f"Snowflake rejected the credential: {text}", extra=extra) from None
        message = f"cannot reach Snowflake at {settings.get('host') or settings['account']}: {text}"
        raise Failure("connect", message, retryable=True, extra=extra) from None


def logout(connection: SnowflakeConnection) -> None:
    with suppress(Exception):  # whether or not the server is reachable
        connection.close(retry=False)


def _private_key(text: str | bytes, passphrase: str | None) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    try:
        key = serialization.load_pem_private_key(raw, passphrase.encode() if passphrase else None)
    except (ValueError, TypeError):
        message = "`private_key` of the credential is not a PEM key, or `private_key_passphrase` is wrong"
        raise Failure("auth", message) from None
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.DER, form, serialization.NoEncryption())


class SnowflakeSession:
    def __init__(self, connection: SnowflakeConnection, cancellation: Cancellation) -> None:
        self.connection, self.cancellation = connection, cancellation
        self.running: tuple[str, str] | None = None
        self.interrupted = False
        self.clean = True  # whether the call left the state of the session unchanged
        cancellation.on_cancel(self.abort)

    def abort(self) -> None:
        self.interrupted = True
        if self.running is not None:
            self.connection._cancel_query(*self.running)  # type: ignore[arg-type]

    def execute(
        self, text: str, values: list[Any] | dict[str, Any] | None = None, sql: WrittenSql | None = None
    ) -> SnowflakeCursor:
        """Run a statement. `sql` has the places of the author's SQL that the text was written from."""
        self.cancellation.check()
        cursor = self.connection.cursor()
        text, request = text.strip(), str(uuid4())
        self.running = (text, request)
        try:
            cursor.execute(text, values or None, _statement_params={"requestId": request}, _is_put_get=False)
        except Error as error:
            self.cancellation.check()
            code, message = error.errno, _message(error)
            extra = snowflake_extra(code, error.sqlstate, error.sfqid)
            if code == CANCELED:
                raise Failure("cancelled", f"snowflake: {message}", extra=extra) from None
            lost = isinstance(error, (OperationalError, InterfaceError)) or not isinstance(error, DatabaseError)
            if lost or code in SESSION_ENDED:
                message = f"the connection to Snowflake was lost: {message}"
                raise Failure("connect", message, retryable=True, extra=extra) from None
            place = {} if sql is None else _place(sql, message)
            raise Failure("sql", f"snowflake: {message}", retryable=code == LOCKED, extra=extra, **place) from None
        finally:
            self.running = None
        return cursor

    def execute_sql(self, sql: Sql, params: list[Any] | dict[str, Any] | None) -> SnowflakeCursor:
        """Run a statement with bound values, or with literals and the author's `params`."""
        text, values = _bind(sql) if params is None else (written(sql, literal), params)
        return self.execute(text.text, values, text)


class SnowflakePool:
    """The sessions of one event loop. One call uses a session at a time; a session that it changed is closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[str, list[tuple[SnowflakeConnection, float]]] = {}

    @contextmanager
    def session(self, fields: Mapping[str, Any], cancellation: Cancellation) -> Iterator[SnowflakeSession]:
        key = repr(sorted(fields.items()))
        connection = self._take(key) or login(fields)
        session = SnowflakeSession(connection, cancellation)
        try:
            yield session
        except BaseException:
            session.clean = False  # a transaction may be open, or a statement still running
            raise
        finally:
            if session.clean and not session.interrupted:
                self._put(key, connection)
            else:
                logout(connection)

    def _take(self, key: str) -> SnowflakeConnection | None:
        now = time.monotonic()
        while True:
            with self._lock:
                idle = self._idle.get(key) or []
                if not idle:
                    return None
                connection, since = idle.pop()
            if now - since < UNCHECKED_SECONDS or (now - since < IDLE_SECONDS and connection.is_valid()):
                return connection
            logout(connection)

    def _put(self, key: str, connection: SnowflakeConnection) -> None:
        now = time.monotonic()
        with self._lock:
            entries = [*self._idle.get(key, []), (connection, now)]
            self._idle[key] = fresh = [entry for entry in entries if now - entry[1] <= IDLE_SECONDS][:MAX_IDLE]
        for entry in entries:
            if entry not in fresh:
                logout(entry[0])

    def close(self) -> None:
        for idle in self._idle.values():
            for connection, _ in idle:
                logout(connection)


POOLS: WeakKeyDictionary[AbstractEventLoop, SnowflakePool] = WeakKeyDictionary()


async def close_pool() -> None:
    pool = POOLS.pop(asyncio.get_running_loop(), None)
    if pool is not None:
        await in_thread(lambda cancellation: pool.close())


def _message(error: Error) -> str:
    text = error.raw_msg or error.msg or str(error)
    return re.sub(r"\A\d{6} \(\w+\): (?:[0-9a-f-]{30,}: )?", "", text).strip()


def snowflake_extra(code: int | None, state: str | None, query: str | None) -> dict[str, Any]:
    text = f"{code:06d}" if isinstance(code, int) and code >= 0 else None
    return {"snowflake": {"code": text, "sqlstate": None if state in (None, "n/a") else state, "query_id": query}}


def _place(sql: WrittenSql, message: str) -> dict[str, int]:
    """The line and column of the author's SQL that an error of Snowflake names: `line 2 at position 7`, from 0."""
    named = re.search(r"(?i)\bline:? (\d+)(?: at position (\d+))?", message)
    if named is None:
        return {}
    lines = sql.text.lstrip().splitlines(keepends=True)[: int(named[1]) - 1]
    start = len(sql.text) - len(sql.text.lstrip())
    place = sql.place(start + sum(map(len, lines)) + int(named[2] or 0) + 1)
    return {"line": place.line, "column": place.column}


def _bind(sql: Sql) -> tuple[WrittenSql, list[Any]]:
    """The text of a statement, and its bound values: text wherever Snowflake accepts that; numbers are literals."""
    values: list[Any] = []
    binds = first_word(sql) in BINDS
    only_literals = _only_literals(sql)

    def render(value: Any) -> str:
        only_literal, nested = next(only_literals), isinstance(value, (list, dict))
        if nested:
            value = msgspec.json.encode(value).decode()
        if binds and (nested or (isinstance(value, (str, bytes)) and not only_literal)):
            values.append(value)
            text = "?"
        else:
            text = literal(value)
        return f"PARSE_JSON({text})" if nested else text

    return written(sql, render), values


def _only_literals(sql: Sql) -> Iterator[bool]:
    """For each value, whether it follows a word such as `INTERVAL`."""
    before: Any = ""
    for part in sql.parts:
        if isinstance(part, Value):
            yield isinstance(before, str) and TYPED_LITERAL.search(before) is not None
        elif isinstance(part, InList):
            yield from (False for item in part.items for _ in (item if isinstance(item, list) else [item]))
        before = part


def literal(value: Any) -> str:
    match value:
        case None | bool() | int():
            return simple_literal(value)
        case float():
            text = repr(value)
            return f"'{text}'::FLOAT" if "n" in text else text
        case bytes():
            return f"TO_BINARY('{value.hex()}', 'HEX')"
    return "'" + str(value).replace("\\", "\\\\").replace("'", "''") + "'"


def first_word(sql: Sql) -> str:
    return next(iter(first_words(sql, 1)), "")


def quoted_name(text: str) -> str:
    """The quoted name that Snowflake makes of an unquoted one: `sales.orders` is `"SALES"."ORDERS"`."""
    parts = text.split(".")
    if not all(parts) or "\0" in text:
        raise Failure("input", f"{text!r} cannot be the name of a table or column")
    return quoted(*map(folded, parts))


def folded(part: str) -> str:
    return part.upper() if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$]*", part) else part


def insert(
    session: SnowflakeSession,
    table: str,
    columns: list[str],
    rows: Sequence[Sequence[Any]],
    json: frozenset[int] = frozenset(),
) -> str | None:
    """Insert rows into a quoted table, in batches; return the id of the last query. The values of a column have one
    type in a batch; `json` are the indexes of columns whose values are JSON text already."""
    query = None
    size = max(1, min(BATCH_ROWS, BATCH_VALUES // max(1, len(columns))))
    for start in range(0, len(rows), size):
        batch = rows[start : start + size]
        writers = [
            _writer({type(row[place]) for row in batch if row[place] is not None}, place in json)
            for place in range(len(columns))
        ]
        values, lines = [], []
        for row in batch:
            cells = []
            for value, (text_of, _) in zip(row, writers, strict=True):
                if value is None or text_of is None:
                    cells.append(literal(value))
                else:
                    values.append(text_of(value))
                    cells.append("?")
            lines.append(f"({', '.join(cells)})")
        converted = ", ".join(form.format(f"column{place}") for place, (_, form) in enumerate(writers, start=1))
        target = f"{table} ({', '.join(map(quoted_name, columns))})"
        query = session.execute(f"INSERT INTO {target} SELECT {converted} FROM VALUES {', '.join(lines)}", values).sfqid
    return query


def _writer(kinds: set[type], json: bool) -> tuple[Callable[[Any], str] | None, str]:
    """How the values of a column are bound as text, None for literals; and the expression that converts them."""
    if json:
        return str, "PARSE_JSON({})"
    if kinds <= {int, float} or kinds <= {bool}:
        return None, "{}"
    if kinds & {dict, list}:
        return (lambda value: msgspec.json.encode(value).decode()), "PARSE_JSON({})"
    if kinds == {bytes}:
        return bytes.hex, "TO_BINARY({}, 'HEX')"
    if bytes in kinds:
        raise Failure("input", "a column has binary content in one row and another type in another row")
    return (lambda value: str(value).lower() if isinstance(value, bool) else str(value)), "{}"
