"""Errors as problem details (RFC 9457): every response that is not a success has this shape."""

from __future__ import annotations

from http import HTTPStatus
from typing import Literal

import msgspec

from noetl import errors
from noetl.dsl.problem import Fix
from noetl.errors import NoetlError, PlaybookInvalid
from noetl.runtime.past import PastBusy
from noetl.server.record_views import RecordView
from noetl.worker.wire import BadMessage

CREDENTIAL = "credential"  # a credential of a playbook is missing or cannot be used
MEDIA = "application/problem+json"
MAX_DETAIL = 2_000  # characters; a detail quotes values of the request
RENAMED = {
    413: "Content Too Large",
    416: "Range Not Satisfiable",
    422: "Unprocessable Content",
    499: "Client Closed Request",
}
"""Phrases of RFC 9110 that Python 3.11 does not know yet, and that of a status which is not registered."""
STATUS: dict[type[NoetlError], int] = {
    BadMessage: 400,
    PlaybookInvalid: 422,
    errors.FileMissing: 404,
    errors.NotFound: 404,
    errors.AuthError: 422,  # a credential of the playbook, not of the caller
    errors.Conflict: 409,
    errors.UsageError: 422,
    errors.Unstorable: 422,
    errors.DiskFull: 507,
    errors.StoreError: 503,
    PastBusy: 503,
}


class Finding(RecordView, frozen=True):
    """A problem of a playbook, and its range, which ends before `end_column`. `path` has the steps on the path of a
    problem of the net; `fix` is the text to put in the place of the range."""

    file: str
    line: int
    column: int
    code: str
    severity: Literal["error", "warning"]
    message: str
    hint: str | None
    end_line: int
    end_column: int
    path: tuple[str, ...]
    fix: Fix | None


class ProblemDetails(msgspec.Struct, frozen=True):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    problems: list[Finding] | msgspec.UnsetType = msgspec.UNSET


class Refused(NoetlError):
    problems: list[Finding] | msgspec.UnsetType = msgspec.UNSET

    def __init__(self, status: int, detail: str, *, kind: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.kind, self.headers = status, detail, kind, headers or {}


def refused(error: NoetlError) -> Refused:
    if isinstance(error, Refused):
        return error
    if isinstance(error, PlaybookInvalid):
        first, *others = [problem for problem in error.problems if problem.severity == "error"]
        detail = f"line {first.line}, column {first.column}: {first.message}"
        detail += f" (and {len(others)} more)" if others else ""
        problem = Refused(422, detail, kind="playbook-invalid")
        problem.problems = list(map(Finding.of, error.problems))
        return problem
    if isinstance(error, errors.AuthError):
        return Refused(STATUS[errors.AuthError], str(error), kind=CREDENTIAL)
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)
    return Refused(status, str(error), headers={"Retry-After": "1"} if status == 503 else None)


def title(status: int) -> str:
    return RENAMED.get(status) or HTTPStatus(status).phrase


def document(problem: Refused, request_id: str) -> bytes:
    phrase = title(problem.status)
    kind = f"urn:noetl:problem:{problem.kind or phrase.lower().replace(' ', '-')}"
    detail = problem.detail if len(problem.detail) <= MAX_DETAIL else f"{problem.detail[: MAX_DETAIL - 1]}…"
    details = ProblemDetails(kind, phrase, problem.status, detail, request_id, problem.problems)
    return msgspec.json.encode(details)
