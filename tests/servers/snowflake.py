"""A Snowflake on 127.0.0.1: the wire protocol that the official connector speaks, before the engine of fakesnow.

The server of fakesnow itself needs a web framework, and it neither checks passwords nor stops a query. This one does
both, for the one user there is. Each database is a world of its own.

    from tests.servers.snowflake import sign_in_fixture, snowflake_fixture  # noqa: F401
"""

from __future__ import annotations

import gzip
import json
import re
import secrets
import threading
import warnings
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import duckdb
import pyarrow
import pytest
import snowflake.connector.errors
from fakesnow.arrow import to_ipc, to_sf
from fakesnow.converter import from_binding
from fakesnow.dialect import parse_one
from fakesnow.instance import FakeSnow
from fakesnow.rowtype import describe_as_rowtype
from fakesnow.statement_type import DML_TYPE_IDS, statement_type_id
from fakesnow.variables import Variables
from sqlglot import Dialect, TokenType

USER, PASSWORD = "LOADER", "canary-of-snowflake"
HOLD = "/* hold */"
"""Statements with this comment wait until the server is `open`."""
QUOTED, QUOTES = {TokenType.STRING, TokenType.IDENTIFIER}, "'\""
CANCELED = {"code": "000604", "sqlState": "57014", "message": "SQL execution canceled"}


class Snowflake:
    """The server: sessions by their token, and what is running by its request."""

    def __init__(self) -> None:
        self.engine = FakeSnow()
        self.sessions: dict[str, Any] = {}
        self.running: dict[str, Any] = {}
        self.aborted: set[str] = set()
        self.logins = 0
        self.statements: list[str] = []
        self.open = threading.Event()
        """Set when statements that are to be held may go on."""
        self.lock, self.filtering = threading.Lock(), threading.Lock()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    @property
    def port(self) -> int:
        return int(self.http.server_address[1])

    def fields(self, **given: Any) -> dict[str, Any]:
        """A credential that is let in."""
        there = {"account": "test", "host": "127.0.0.1", "port": self.port, "protocol": "http"}
        return there | {"user": USER, "password": PASSWORD, "schema": "PUBLIC"} | given

    def close(self) -> None:
        self.open.set()
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()
        for session in self.sessions.values():
            session._duck_conn.close()
        self.engine.duck_conn.close()

    # -- requests -----------------------------------------------------------------------------------------------------

    def answer(self, path: str, query: dict[str, str], body: dict[str, Any], token: str) -> dict[str, Any]:
        match path:
            case "/session/v1/login-request":
                return self.login(query, body["data"])
            case "/queries/v1/query-request" if token in self.sessions:
                return self.query(self.sessions[token], query.get("requestId", ""), body)
            case "/queries/v1/abort-request":
                return self.abort(body["requestId"])
            case "/session" if token in self.sessions:
                if query.get("delete"):
                    self.sessions.pop(token)._duck_conn.close()
                return {"success": True, "data": None}
            case "/session/heartbeat" if token in self.sessions:
                return {"success": True, "data": None}
            case "/telemetry/send":
                return {"success": True, "data": None}
        return {"success": False, "code": "390104", "message": "session no longer exists", "data": None}

    def login(self, query: dict[str, str], data: dict[str, Any]) -> dict[str, Any]:
        if (data.get("LOGIN_NAME"), data.get("PASSWORD")) != (USER, PASSWORD):
            message = "Incorrect username or password was specified."
            return {"success": False, "code": "390100", "message": message, "data": {}}
        self.logins += 1
        token = secrets.token_urlsafe(16)
        with self.lock:
            session = self.sessions[token] = self.engine.connect(query.get("databaseName"), query.get("schemaName"))
            session.variables = _Variables()
        said = [{"name": "AUTOCOMMIT", "value": True}, {"name": "CLIENT_STAGE_ARRAY_BINDING_THRESHOLD", "value": 0}]
        there = {"databaseName": query.get("databaseName"), "schemaName": query.get("schemaName")}
        data = {"token": token, "masterToken": token, "parameters": said, "sessionInfo": there}
        return {"success": True, "data": data}

    def abort(self, request: str) -> dict[str, Any]:
        with self.lock:
            self.aborted.add(request)
            session = self.running.get(request)
        if session is not None:
            session._duck_conn.interrupt()
        return {"success": True, "data": None}

    def query(self, session: Any, request: str, body: dict[str, Any]) -> dict[str, Any]:
        bindings = body.get("bindings") or {}
        values = [_value(bindings[str(place)]) for place in range(1, len(bindings) + 1)]
        self.statements.append(body["sqlText"])
        self.running[request] = session
        if HOLD in body["sqlText"]:
            self.open.wait()
        try:
            return self.execute(session, body["sqlText"], tuple(values) or None)
        except duckdb.InterruptException:
            return {"success": False, **CANCELED, "data": {"sqlState": CANCELED["sqlState"]}}
        except snowflake.connector.errors.Error as error:
            code = f"{error.errno:06d}"
            data = {"errorCode": code, "sqlState": error.sqlstate}
            return {"success": False, "code": code, "message": error.msg, "data": data}
        except Exception as error:  # what fakesnow can't do, or DuckDB refuses
            return {"success": False, "code": "000603", "message": str(error), "data": {"sqlState": "XX000"}}
        finally:
            self.running.pop(request, None)

    def execute(self, session: Any, text: str, values: tuple[Any, ...] | None) -> dict[str, Any]:
        kind = statement_type_id(parse_one(text))
        cursor = session.cursor()
        with self.filtering, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # DuckDB's advice to fakesnow; filters belong to all threads
            cursor.execute(text, binding_params=values, server=True)
            columns = describe_as_rowtype(cursor._describe_last_sql())
        table = cursor._arrow_table
        said: dict[str, Any] = {
            "parameters": [{"name": "TIMEZONE", "value": "Etc/UTC"}],
            "rowtype": columns,
            "total": table.num_rows if table else 0,
            "queryId": cursor.sfqid,
            "statementTypeId": kind,
            "finalDatabaseName": session.database,
            "finalSchemaName": session.schema,
        }
        if table and kind in DML_TYPE_IDS:
            rows = zip(*[column.to_pylist() for column in table.columns], strict=True)
            result = [[None if value is None else str(value) for value in row] for row in rows]
            return {"success": True, "data": said | {"queryResultFormat": "json", "rowset": result}}
        packed = b64encode(to_ipc(_with_nulls(to_sf(table, columns), table))).decode() if table else ""
        return {"success": True, "data": said | {"queryResultFormat": "arrow", "rowsetBase64": packed}}


class _Variables(Variables):
    """Session variables as Snowflake has them: a text or a quoted name has none, though fakesnow sees one."""

    def inline_variables(self, sql: str) -> str:
        kept, parts, at = [], [], 0
        for token in Dialect.get_or_raise("snowflake").tokenize(sql):
            if token.token_type in QUOTED and sql[token.start] in QUOTES:
                kept.append(sql[token.start : token.end + 1])
                parts += [sql[at : token.start], f"\0{len(kept) - 1}\0"]
                at = token.end + 1
        text = super().inline_variables("".join([*parts, sql[at:]]))
        return re.sub("\0(\\d+)\0", lambda found: kept[int(found[1])], text)


def _with_nulls(made: Any, table: Any) -> Any:
    """Null moments as nulls: fakesnow makes structs of them and forgets."""
    for number, field in enumerate(made.schema):
        if pyarrow.types.is_struct(field.type):
            whole = made.column(number).combine_chunks()
            parts = whole.chunk(0) if isinstance(whole, pyarrow.ChunkedArray) else whole
            mask = table.column(number).combine_chunks().is_null()
            masked = pyarrow.StructArray.from_arrays(parts.flatten(), fields=list(field.type), mask=mask)
            made = made.set_column(number, field, masked)
    return made


def _value(binding: dict[str, Any]) -> Any:
    return None if binding["value"] is None else from_binding(binding)


def _handler(server: Snowflake) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            address = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(address.query).items()}
            token = self.headers.get("Authorization", "").removeprefix('Snowflake Token="').removesuffix('"')
            said = json.dumps(server.answer(address.path, query, json.loads(body or b"{}"), token)).encode()
            with suppress(OSError):  # the client may have gone
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

        def log_message(self, format: str, *args: Any) -> None: ...

    return Handler


@pytest.fixture(scope="session", name="snowflake")
def snowflake_fixture() -> Iterator[Snowflake]:
    server = Snowflake()
    yield server
    server.close()


@pytest.fixture(name="sign_in")
def sign_in_fixture(snowflake: Snowflake) -> dict[str, Any]:
    """A credential for a database that no other test uses."""
    return snowflake.fields(database=f"DB_{secrets.token_hex(4)}".upper())
