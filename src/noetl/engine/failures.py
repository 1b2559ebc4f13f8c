"""Errors of runs and executions as data, as templates and people see them."""

from __future__ import annotations

from typing import Any

from noetl.errors import TemplateError
from noetl.model.outcome import Error


def error_data(error: Error, step: str, task: str | None, attempt: int) -> dict[str, Any]:
    return {
        "kind": error.kind,
        "message": error.message,
        "retryable": error.retryable,
        "details": error.details,
        "step": step,
        "task": task,
        "attempt": attempt,
    }


def template_failure(error: TemplateError, step: str, place: str) -> dict[str, Any]:
    return {"kind": "template", "message": f"{error.message} in {error.source!r}"[:1000], "step": step, "place": place}


def limit_failure(message: str, step: str) -> dict[str, Any]:
    return {"kind": "limit", "message": message, "step": step}
