"""The outcome of a tool call: exactly one per call, with an envelope that is never mixed with the data."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Status = Literal["ok", "error"]


class Error(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a call failed; rules can read its fields."""

    kind: str
    message: str
    retryable: bool = False
    details: dict[str, Any] = {}


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The result or the error of one call. `extra` holds the kind's own field, such as `{"http": {...}}`."""

    status: Status = "ok"
    result: Any = None
    error: Error | None = None
    extra: dict[str, Any] = {}

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    def as_data(self, meta: dict[str, Any]) -> dict[str, Any]:
        """The envelope that templates see as `outcome`."""
        error = None if self.error is None else msgspec.to_builtins(self.error)
        if error is not None:
            error = {"retryable": False, "details": {}} | error
        return {"status": self.status, "result": self.result, "error": error, "meta": meta, **self.extra}


def failed(
    kind: str, message: str, *, retryable: bool = False, extra: dict[str, Any] | None = None, **details: Any
) -> Outcome:
    return Outcome("error", error=Error(kind, message, retryable, details), extra=extra or {})


class Failure(Exception):
    """An error outcome on its way out of a tool."""

    def __init__(
        self, kind: str, message: str, *, retryable: bool = False, extra: dict[str, Any] | None = None, **details: Any
    ) -> None:
        super().__init__(message)
        self.outcome = failed(kind, message, retryable=retryable, extra=extra, **details)
