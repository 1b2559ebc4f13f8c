"""What the server or the driver complains about, as an error outcome.

SQLSTATEs decide; only before a session exists the driver has nothing but a text, in which we look for phrases.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg

from noetl.model.outcome import Failure
from noetl.sql import InList, Part, Value

NO_FAULT: dict[str, Any] = {"pg": {"code": None, "sqlstate": None}}
AGAIN = ("40001", "40P01", "55P03", "53")
"""Conflicts with others, and a server that is short of something: the same call may well succeed later."""
GONE = ("08", "57P01", "57P02", "57P03", "57P05", "53300")
"""The server ends, starts, or has no room: nothing of the transaction stays."""
CANCELED = "57014"
TIME_OVER = ("25P03", "25P04")
PHRASES = [
    (re.compile(r"password authentication failed|no password supplied"), "auth", "28P01"),
    (re.compile(r"authentication failed|no pg_hba\.conf entry|role \".*\" (does not exist|is not)"), "auth", "28000"),
    (re.compile(r"permission denied for database"), "auth", "42501"),
    (re.compile(r"database \".*\" does not exist"), "not_found", "3D000"),
    (re.compile(r"too many (clients|connections)|connection slots"), "connect", "53300"),
    (re.compile(r"the database system is"), "connect", "57P03"),
]
FIELDS = ("schema_name", "table_name", "column_name", "datatype_name", "constraint_name")


class Sent(NamedTuple):
    """A statement as the server got it, to find the place of an error in what its author wrote."""

    parts: Sequence[tuple[Part, str]]
    line: int
    number: int
    """Which of the call's statements it is, from 1."""
    of: int

    def place(self, position: int) -> tuple[int, Part | None]:
        """The line in the author's text and the part that a position (from 1) falls into."""
        line, end = self.line, 0
        for part, written in self.parts:
            begin, end = end, end + len(written)
            text = written if isinstance(part, str) else ""
            if position <= end:
                return line + text.count("\n", 0, position - begin - 1), part
            line += text.count("\n")
        return line, None


def connecting(error: Exception) -> Failure:
    """Why there is no session."""
    text = str(error).strip() or type(error).__name__
    found = ((kind, state) for phrase, kind, state in PHRASES if phrase.search(text))
    kind, state = next(found, ("connect", getattr(error, "sqlstate", None)))
    pg = {"code": state, "sqlstate": state}
    message = f"no connection to PostgreSQL: {text}"
    return Failure(kind, message, retryable=kind == "connect", extra={"pg": pg}, sqlstate=state)


def refused(error: psycopg.Error, sent: Sent | None, safe: bool) -> Failure:
    """Why a statement failed. `safe`: nothing of it can have been committed."""
    state = error.sqlstate
    if state is None:
        return _lost(error, safe)
    kind, retryable = _kind(state, error)
    told = _told(error, sent)
    return Failure(kind, _message(error, sent, told), retryable=retryable, extra={"pg": told}, **_details(told, sent))


def _kind(state: str, error: psycopg.Error) -> tuple[str, bool]:
    if state.startswith(GONE):
        return "connect", True
    if state == CANCELED:
        late = "timeout" in str(error)
        return ("timeout" if late else "cancelled"), late
    if state in TIME_OVER:
        return "timeout", True
    if state.startswith("28"):
        return "auth", False
    return "sql", state.startswith(AGAIN)


def _lost(error: psycopg.Error, safe: bool) -> Failure:
    """The connection broke, or the driver can't go on."""
    text = str(error).strip() or type(error).__name__
    if not isinstance(error, psycopg.OperationalError):
        return Failure("sql", f"the driver can't read the answer: {text}", extra=NO_FAULT)
    unsure = "" if safe else "; whether the statement was committed is not known"
    return Failure("connect", f"the connection to PostgreSQL was lost: {text}{unsure}", retryable=safe, extra=NO_FAULT)


def _told(error: psycopg.Error, sent: Sent | None) -> dict[str, Any]:
    """What the server told beside its text, for `outcome.pg`."""
    diag = error.diag
    told: dict[str, Any] = {"code": error.sqlstate, "sqlstate": error.sqlstate}
    told["severity"] = diag.severity_nonlocalized or diag.severity
    told |= {name.removesuffix("_name"): getattr(diag, name) for name in FIELDS}
    if diag.statement_position is not None:
        told["position"] = int(diag.statement_position)
        if sent is not None:
            told["line"], _ = sent.place(told["position"])
    return {name: value for name, value in told.items() if value is not None}


def _message(error: psycopg.Error, sent: Sent | None, told: dict[str, Any]) -> str:
    diag = error.diag
    text = diag.message_primary or str(error)
    places = []
    if sent is not None and sent.of > 1:
        places.append(f"statement {sent.number}")
    if "line" in told:
        places.append(f"line {told['line']}")
    if places:
        text += f" ({', '.join(places)} of the SQL)"
    more = [diag.message_detail, diag.message_hint, diag.context, _advice(error, sent, told)]
    return "; ".join([text, *(part.strip() for part in more if part)])


def _advice(error: psycopg.Error, sent: Sent | None, told: dict[str, Any]) -> str | None:
    if error.sqlstate == "25001":
        return "it can't be part of a transaction: give it a task of its own, without `exactly_once`"
    if error.sqlstate == "42601" and sent is not None and "position" in told:
        _, part = sent.place(told["position"])
        if isinstance(part, Value | InList):
            return "a template is one value; a name is written {{ name | ident }}"
    return None


def _details(told: dict[str, Any], sent: Sent | None) -> dict[str, Any]:
    details = {name: value for name, value in told.items() if name != "code"}
    if sent is not None and sent.of > 1:
        details["statement"] = sent.number
    return details
