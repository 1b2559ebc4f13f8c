"""An execution as `noetl run -o json` and the API show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec.structs import astuple

from noetl.dsl.tree import Mark
from noetl.engine.history.reasons import DecisionKind, Reason, Verdict
from noetl.engine.signal_fields import signal_commands
from noetl.engine.state import Execution, Run
from noetl.model.identity import TaskId
from noetl.runtime.activity import Pending
from noetl.timestamps import optional_rfc3339, rfc3339

if TYPE_CHECKING:
    from noetl.runtime.explanations import Explained

MAX_LISTED = 100  # how many running tasks and how many waits are listed
ITEMS = ("total", "ok", "failed", "running")  # names of the counts of a loop
KINDS = {"timer": "delay", "admission": "gate"}  # names of kinds in `waiting` that differ from those in `waits`
BUSY = ("held", "scheduled", "waiting", "running")


def report(state: Execution, file: str, places: dict[str, Mark], duration: float) -> dict[str, Any]:
    return {
        "execution_id": state.id,
        "status": state.shown_status,
        "result": state.result,
        "ctx": state.ctx,
        "steps": steps(state),
        "error": located(execution_error(state), file, places),
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
        status = run_status(run, run.id in leased)
        live[run.step] = max(status, live.get(run.step, "held"), key=BUSY.index)
    views: dict[str, dict[str, Any]] = {}
    for name in state.net.steps:
        runs, last = state.entries.get(name, 0), state.steps.get(name)
        if name in live:
            items = items_of(next((run for run in state.runs.values() if run.step == name and run.loop), None))
            views[name] = {"status": live[name], "runs": runs, "result": None, "error": None, "items": items}
        elif last is not None:
            items = last.items and dict(zip(ITEMS, (*last.items, 0), strict=True))
            about = {"status": last.status, "runs": runs, "result": last.result, "error": last.error}
            views[name] = about | {"items": items}
    return views


def run_status(run: Run, is_leased: bool) -> Literal["scheduled", "running", "waiting"]:
    """The status of a step run that has not ended."""
    if run.parked and not is_leased:
        return "waiting"
    return "scheduled" if run.started is None and not is_leased else "running"


def items_of(run: Run | None) -> dict[str, int] | None:
    """The progress of a loop."""
    loop = run.loop if run is not None else None
    counts = loop and (loop.total, loop.ok, loop.failed, len(loop.lanes))
    return dict(zip(ITEMS, counts, strict=True)) if counts else None


def running_tasks(state: Execution, now: float) -> list[dict[str, Any]]:
    """Tasks that workers are running, as far as they have reported them: those that run for a second or more."""
    leased = {lease.run for lease in state.leases.values()}
    tasks: list[dict[str, Any]] = []
    for run in state.runs.values() if leased else ():
        pipelines = [(None, run.progress), *run.item_progress.items()] if run.id in leased else []
        for index, prefixes in pipelines:
            for prefix, progress in prefixes.items():
                if progress.started and progress.at and progress.since is not None and index not in run.parked:
                    task = TaskId(run.id, f"{prefix}{progress.at}#{progress.visits.get(progress.at, 1)}", index)
                    took = round(max(0.0, now - progress.since) * 1000, 3)
                    about = {"task": task.place, "item": index, "attempt": progress.attempt}
                    times = {"started": rfc3339(progress.since), "duration_ms": took}
                    tasks.append({"step": run.step, "run": run.id} | about | times)
                    if len(tasks) == MAX_LISTED:
                        return tasks
    return tasks


def waits(pending: Iterable[Pending], state: Execution) -> list[dict[str, Any]]:
    """The waits of runs, items and tokens, each with its deadline and the commands that end it."""
    listed = []
    for wait in islice(pending, MAX_LISTED):
        names = list(wait.names) if wait.kind == "signal" else []
        child = wait.names[0] if wait.kind == "child" else None
        kind, until = KINDS.get(wait.kind, wait.kind), optional_rfc3339(wait.due)
        about = {"step": wait.step, "run": wait.run or None, "item": wait.item, "kind": kind, "names": names}
        more = {"child": child, "commands": signal_commands(state.net, state.id, wait.step, names), "until": until}
        listed.append({**about, **more, "message": wait.message})
    return listed


def execution_error(state: Execution) -> dict[str, Any] | None:
    """The error of an execution that has failed, or will; with the item, if an item of a loop failed its step."""
    error = state.error or state.failure
    last = state.steps.get(error.get("step", "")) if error is not None else None
    if error is None or last is None or not last.failures:
        return error
    items = (failure["index"] for failure in last.failures if failure["error"] == last.error)
    return {"item": next(items, None), **error}


def located(error: dict[str, Any] | None, file: str, places: Mapping[str, Mark]) -> dict[str, Any] | None:
    """The error with its place: that of its line of program text, of the input or the rule to blame, or else of the
    task or the step."""
    if error is None:
        return None
    fields = {name: error.get(name) for name in ("kind", "message", "step", "task", "attempt", "item")}
    details = error.get("details") or {}
    if isinstance(source := details.get("source"), dict):
        file, line, column = source.get("file", file), source["line"], source["column"]
    else:
        failures = details.get("first")  # of a loop that ran all items
        blamed = failures[0]["error"] if fields["kind"] == "items_failed" and failures else error
        mark = next((places[place] for place in _places_of(blamed) if place in places), None)
        line, column = (mark.line, mark.column) if mark else (None, None)
    return {**fields, "step": fields["step"] or None, "file": file, "line": line, "column": column, "details": details}


def _places_of(error: dict[str, Any]) -> tuple[str, ...]:
    """Keys of the place to blame, the closest first."""
    step, task, details = error.get("step"), error.get("task"), error.get("details") or {}
    owner = "/".join(str(part) for part in (step, task, details.get("inner_task")) if part)
    part = f"input/{details['input']}" if "input" in details else f"rules/{details.get('rule')}"
    template = f"{owner}/{part}#{details.get('template')}"
    return template, f"{owner}/{part}", owner, f"{step}/{task}", f"{step}/{error.get('place')}", str(step)


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
    item: int | None  # index of the item of a loop
    file: str
    line: int | None
    column: int | None
    details: dict[str, Any]


class DecisionView(msgspec.Struct, frozen=True):
    """A decision about a step, its reasons, and the error that was handled. `differs` is the outcome of today, if it is
    another one: the log is right. `inputs` of the task, rendered again, are there if one event was asked for."""

    seq: int
    timestamp: str
    kind: DecisionKind
    about: str
    says: str
    reasons: list[ReasonView]
    differs: str | None
    error: ErrorView | None
    inputs: Mapping[str, Any] | None


class ExplainView(msgspec.Struct, frozen=True):
    """Why a step ran, waits or never ran, with the latest decisions. `status` is null if it was never entered; `next`
    is the `before` of earlier decisions, null if there are none."""

    execution_id: str
    step: str
    run: str | None
    status: str | None
    runs: int
    file: str
    line: int | None
    column: int | None
    decisions: list[DecisionView]
    next: int | None
    stands: list[str]


def explained(result: Explained, run: str | None, file: str, places: Mapping[str, Mark]) -> ExplainView:
    explanation, state, inputs = result

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
            seq,
            rfc3339(at),
            kind,
            about,
            says,
            list(map(reason_view, reasons)),
            differs or None,
            error_view(error),
            inputs,
        )
        for seq, at, kind, about, says, reasons, differs, error in map(astuple, explanation.decisions)
    ]
    name, following, notes = explanation.step, explanation.next, explanation.notes
    status, runs = steps(state).get(name, {}).get("status"), state.entries.get(name, 0)
    return ExplainView(state.id, name, run, status, runs, *place_of(name), decisions, following, notes)
