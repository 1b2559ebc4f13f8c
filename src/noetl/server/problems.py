"""What went wrong, as problem details (RFC 9457): every answer that is not a success has this shape."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.dsl.problem import Problem
from noetl.errors import (
    AuthError,
    Conflict,
    DiskFull,
    FileMissing,
    NoetlError,
    NotFound,
    PlaybookInvalid,
    StoreError,
    Unstorable,
    UsageError,
)
from noetl.worker.wire import BadMessage

MEDIA = "application/problem+json"
TITLES = {
    400: "The request can't be read",
    401: "Sign in first",
    403: "Not allowed",
    404: "There is no such thing",
    405: "This method is not for this address",
    406: "No answer of that kind",
    409: "It does not fit what is going on",
    413: "Too large",
    415: "Content of that type is not taken here",
    421: "This server does not answer to that name",
    422: "The request makes no sense",
    429: "Too often",
    499: "The client has left",
    500: "A defect of the server",
    503: "Not at the moment",
    507: "No room left",
}
STATUS: dict[type[NoetlError], int] = {
    BadMessage: 400,
    PlaybookInvalid: 422,
    FileMissing: 404,
    NotFound: 404,
    AuthError: 422,  # a credential of the playbook, not of whoever asks
    Conflict: 409,
    UsageError: 422,
    Unstorable: 422,
    DiskFull: 507,
    StoreError: 503,
}
RETRY_SECONDS = 1


class Refused(NoetlError):
    """A request that is answered with a problem."""

    def __init__(
        self, status: int, detail: str, *, kind: str = "", headers: dict[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.kind = status, detail, kind
        self.headers, self.more = headers or {}, more


def refused(error: NoetlError) -> Refused:
    """An error of ours as the problem that it is to whoever asked."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, PlaybookInvalid):
        return invalid_playbook(error.problems)
    status = next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)
    headers = {"Retry-After": str(RETRY_SECONDS)} if status == 503 else None
    return Refused(status, str(error), headers=headers)


def invalid_playbook(problems: Any) -> Refused:
    """A playbook with errors: all of them, each with its line and column."""
    errors = [problem for problem in problems if problem.severity == "error"]
    first = errors[0]
    detail = f"line {first.line}, column {first.column}: {first.message}"
    if len(errors) > 1:
        detail += f" (and {len(errors) - 1} more)"
    return Refused(422, detail, kind="playbook-invalid", problems=[shown(problem) for problem in problems])


def shown(problem: Problem) -> dict[str, Any]:
    """A finding as `noetl validate -o json` prints it."""
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "code": problem.code,
        "severity": problem.severity,
        "message": problem.message,
        "hint": problem.hint,
    }


def document(problem: Refused, request_id: str) -> bytes:
    """The problem as it is sent."""
    title = TITLES.get(problem.status, "It did not work")
    kind = problem.kind or title.lower().replace("'", "").replace(" ", "-")
    body = {
        "type": f"urn:noetl:problem:{kind}",
        "title": title,
        "status": problem.status,
        "detail": problem.detail,
        "request_id": request_id,
    }
    return msgspec.json.encode(body | problem.more)
