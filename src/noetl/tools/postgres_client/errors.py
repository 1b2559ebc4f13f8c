"""Failures in place of errors of the server and the driver.

The SQLSTATE decides. Before a session exists the driver only has a text, which is searched for phrases.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import psycopg

from noetl.model.outcome import Failure
from noetl.sql import InList, Value, WrittenSql

NO_ERROR: dict[str, Any] = {"pg": {"code": None, "sqlstate": None}}
TRANSIENT = ("40001", "40P01", "55P03", "53")
"""Conflicts with other transactions, and a lack of resources: the same call may succeed later."""
UNAVAILABLE = ("08", "57P01", "57P02", "57P03", "57P05", "53300")
"""The server stops, starts, or has no free connection: the transaction was rolled back."""
CANCELED = "57014"
TIMED_OUT = ("25P03", "25P04")
PHRASES = [
    (re.compile(r"password authentication failed|no password supplied"), "auth", "28P01"),
    (re.compile(r"authentication failed|no pg_hba\.conf entry|role \".*\" (does not exist|is not)"), "auth", "28000"),
    (re.compile(r"permission denied for database"), "auth", "42501"),
    (re.compile(r"database \".*\" does not exist"), "not_found", "3D000"),
    (re.compile(r"too many (clients|connections)|connection slots"), "connect", "53300"),
    (re.compile(r"the database system is"), "connect", "57P03"),
]
FIELDS = ("schema_name", "table_name", "column_name", "datatype_name", "constraint_name")


class SentStatement(NamedTuple):
    """A statement as it was sent, to find the line of an error in the author's SQL."""

    sql: WrittenSql
    number: int
    of: int


def connect_failure(error: Exception) -> Failure:
    text = str(error).strip() or type(error).__name__
    matches = ((kind, state) for phrase, kind, state in PHRASES if phrase.search(text))
    kind, state = next(matches, ("connect", getattr(error, "sqlstate", None)))
    extra = {"pg": {"code": state, "sqlstate": state}}
    message = f"no connection to PostgreSQL: {text}"
    return Failure(kind, message, retryable=kind == "connect", extra=extra, sqlstate=state)


def statement_failure(error: psycopg.Error, sent: SentStatement | None, safe: bool) -> Failure:
    """The failure of a statement. `safe`: it cannot have been committed."""
    if error.sqlstate is None:
        text = str(error).strip() or type(error).__name__
        if not isinstance(error, psycopg.OperationalError):
            return Failure("sql", f"the driver cannot read the response: {text}", extra=NO_ERROR)
        doubt = "" if safe else "; it is unknown whether the statement was committed"
        message = f"the connection to PostgreSQL was lost: {text}{doubt}"
        return Failure("connect", message, retryable=safe, extra=NO_ERROR)
    kind, retryable = _kind(error.sqlstate, error)
    diag = error.diag
    fields: dict[str, Any] = {"code": error.sqlstate, "sqlstate": error.sqlstate}
    fields["severity"] = diag.severity_nonlocalized or diag.severity
    fields |= {name.removesuffix("_name"): getattr(diag, name) for name in FIELDS}
    fields = {name: value for name, value in fields.items() if value is not None}
    places, advice = [], None
    if sent is not None and sent.of > 1:
        places.append(f"statement {sent.number}")
    if diag.statement_position is not None:
        fields["position"] = int(diag.statement_position)
        if sent is not None:
            fields["line"], part = sent.sql.place(fields["position"])
            places.append(f"line {fields['line']}")
            if error.sqlstate == "42601" and isinstance(part, Value | InList):
                advice = "a template is one value; a name is written {{ name | ident }}"
    if error.sqlstate == "25001":
        advice = "it cannot be part of a transaction: give it a task of its own, without `exactly_once`"
    text = diag.message_primary or str(error)
    text += f" ({', '.join(places)} of the SQL)" if places else ""
    more = [diag.message_detail, diag.message_hint, diag.context, advice]
    message = "; ".join([text, *(part.strip() for part in more if part)])
    details = {name: value for name, value in fields.items() if name != "code"}
    if sent is not None and sent.of > 1:
        details["statement"] = sent.number
    return Failure(kind, message, retryable=retryable, extra={"pg": fields}, **details)


def _kind(state: str, error: psycopg.Error) -> tuple[str, bool]:
    if state.startswith(UNAVAILABLE):
        return "connect", True
    if state == CANCELED:
        late = "timeout" in str(error)
        return ("timeout" if late else "cancelled"), late
    if state in TIMED_OUT:
        return "timeout", True
    if state.startswith("28"):
        return "auth", False
    return "sql", state.startswith(TRANSIENT)
