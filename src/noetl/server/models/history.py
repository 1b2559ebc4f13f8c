"""Requests and responses of explain, fork and retry."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from noetl.server.models.base import QueryString, RequestBody, text

Seq = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
"""The number of an event."""


class ExplainQuery(QueryString, frozen=True):
    step: Annotated[str, text("The step.")]
    run: Annotated[str, text("One run of it, such as `fetch#2`; default: all.")] = ""


class ReasonView(msgspec.Struct, frozen=True):
    """An arc or a rule: its target, its guard, the verdict, and the values of the names in it."""

    leads_to: str
    when: str | None
    verdict: Literal["matched", "not matched", "not reached", "error"]
    values: dict[str, Any]
    missing: list[str]
    note: str | None
    file: str
    line: int | None
    column: int | None


class DecisionView(msgspec.Struct, frozen=True):
    """A decision about a step, and its reasons. `differs` is the outcome of today, if it is another one: the log is
    right."""

    seq: int
    timestamp: str
    kind: Literal["arcs", "rules", "admission", "case"]
    about: str
    says: str
    reasons: list[ReasonView]
    differs: str | None


class ExplainView(msgspec.Struct, frozen=True):
    """Why a step ran, waits or never ran. `status` is null if it was never entered; `left_out` counts earlier
    decisions that are omitted."""

    execution_id: str
    step: str
    run: str | None
    status: str | None
    runs: int
    file: str
    line: int | None
    column: int | None
    decisions: list[DecisionView]
    left_out: int
    stands: list[str]


class RetryRequest(RequestBody, frozen=True):
    """Changes: the text of an edited playbook, values of ctx."""

    playbook: str | None = None
    ctx: dict[str, Any] = {}


class ForkRequest(RetryRequest, frozen=True):
    """The last event to take over, and changes: the text of an edited playbook, values of ctx."""

    at: Seq | None = None


class AgainView(msgspec.Struct, frozen=True):
    """A step run that continues: with which task, or how many items of its loop are left."""

    run: str
    step: str
    task: str | None
    items: int | None
    failed: bool


class ForkView(msgspec.Struct, frozen=True):
    """A new execution with the first `source_seq` events of its source. `done` are steps whose results it has."""

    execution_id: str
    source_id: str
    source_seq: int
    again: list[AgainView]
    done: list[str]
