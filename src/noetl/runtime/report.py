"""An execution as `noetl run -o json` and the API show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import astuple

from noetl.dsl.tree import Mark
from noetl.engine.history.explain import Explanation
from noetl.engine.history.reasons import DecisionKind, Reason, Verdict
from noetl.engine.state import Execution
from noetl.timestamps import rfc3339

BUSY = ("held", "scheduled", "waiting", "running")


def report(state: Execution, file: str, places: dict[str, Mark], duration: float) -> dict[str, Any]:
    return {
        "execution_id": state.id,
        "status": state.shown_status,
        "result": state.result,
        "ctx": state.ctx,
        "steps": steps(state),
        "error": located(state.error or state.failure, file, places),
        "continued_errors": state.continued_errors,
        "continued": [located(error, file, places) for error in state.continued],
        "warnings": list(state.warnings),
        "events": state.seq,
        "duration_ms": round(duration * 1000, 3),
    }


def steps(state: Execution) -> dict[str, dict[str, Any]]:
    """Every step that was entered, in the order of the playbook. Of several runs of a step the busiest counts."""
    live = {state.tokens[token].step: "held" for token in state.held}
    leased = {lease.run for lease in state.leases.values()}
    for run in state.runs.values():
        status = "waiting" if run.parked else "scheduled" if run.started is None else "running"
        status = "running" if run.id in leased else status
        live[run.step] = max(status, live.get(run.step, "held"), key=BUSY.index)
    views: dict[str, dict[str, Any]] = {}
    for name in state.net.steps:
        runs, last = state.entries.get(name, 0), state.steps.get(name)
        if name in live:
            views[name] = {"status": live[name], "runs": runs, "result": None, "error": None}
        elif last is not None:
            views[name] = {"status": last.status, "runs": runs, "result": last.result, "error": last.error}
    return views


def located(error: dict[str, Any] | None, file: str, places: Mapping[str, Mark]) -> dict[str, Any] | None:
    """The error with its place: that of its line of program text, or else of the rule, the task or the step."""
    if error is None:
        return None
    fields = {name: error.get(name) for name in ("kind", "message", "step", "task", "attempt")}
    fields["details"] = details = error.get("details") or {}
    if isinstance(source := details.get("source"), dict):
        place = {"file": source.get("file", file), "line": source["line"], "column": source["column"]}
        return {**fields, "step": fields["step"] or None, **place}
    step, task, rule = fields["step"], fields["task"], details.get("rule")
    parts = (f"{step}/{task}/rules/{rule}", f"{step}/{task}", f"{step}/{error.get('place')}", str(step))
    mark = next((places[part] for part in parts if part in places), None)
    line, column = (mark.line, mark.column) if mark else (None, None)
    return {**fields, "step": step or None, "file": file, "line": line, "column": column}


class ReasonView(msgspec.Struct, frozen=True):
    """An arc or a rule: its target, its guard, the verdict, and the values of the names in it."""

    leads_to: str
    when: str | None
    verdict: Verdict
    values: dict[str, Any]
    missing: list[str]
    note: str | None
    file: str
    line: int | None
    column: int | None


class ErrorView(msgspec.Struct, frozen=True):
    """Why an execution or a call failed, and at which place of the playbook. `details.traceback` is that of Python."""

    kind: str | None
    message: str | None
    step: str | None
    task: str | None
    attempt: int | None
    file: str
    line: int | None
    column: int | None
    details: dict[str, Any]


class DecisionView(msgspec.Struct, frozen=True):
    """A decision about a step, its reasons, and the error that was handled. `differs` is the outcome of today, if it is
    another one: the log is right."""

    seq: int
    timestamp: str
    kind: DecisionKind
    about: str
    says: str
    reasons: list[ReasonView]
    differs: str | None
    error: ErrorView | None


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


def explained(
    explanation: Explanation, state: Execution, run: str | None, file: str, places: Mapping[str, Mark]
) -> ExplainView:
    def place_of(name: str) -> tuple[str, int | None, int | None]:
        mark = places.get(name)
        return (file, mark.line, mark.column) if mark else (file, None, None)

    def reason_view(reason: Reason) -> ReasonView:
        values, note, place = reason.values, reason.note or None, place_of(reason.place)
        return ReasonView(reason.leads_to, reason.when, reason.verdict, values, reason.missing, note, *place)

    def error_view(error: dict[str, Any] | None) -> ErrorView | None:
        view = located(error, file, places)
        return None if view is None else ErrorView(**view)

    decisions = [
        DecisionView(
            seq, rfc3339(at), kind, about, says, list(map(reason_view, reasons)), differs or None, error_view(error)
        )
        for seq, at, kind, about, says, reasons, differs, error in map(astuple, explanation.decisions)
    ]
    name, left_out, notes = explanation.step, explanation.left_out, explanation.notes
    status, runs = steps(state).get(name, {}).get("status"), state.entries.get(name, 0)
    return ExplainView(state.id, name, run, status, runs, *place_of(name), decisions, left_out, notes)
