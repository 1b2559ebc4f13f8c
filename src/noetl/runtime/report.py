"""An execution as `noetl run -o json` and the API show it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.dsl.tree import Mark
from noetl.engine.history.explain import Explanation
from noetl.engine.history.reasons import ExplainedDecision, Reason
from noetl.engine.state import Execution
from noetl.timestamps import rfc3339

BUSY = ("held", "scheduled", "waiting", "running")


def report(state: Execution, file: str, places: dict[str, Mark], duration: float) -> dict[str, Any]:
    """The outcome of an execution, with the place in the playbook of what went wrong."""
    return {
        "execution_id": state.id,
        "status": state.shown_status,
        "result": state.result,
        "ctx": state.ctx,
        "steps": steps(state),
        "error": located(state.error or state.failure, file, places),
        "events": state.seq,
        "duration_ms": round(duration * 1000, 3),
    }


def steps(state: Execution) -> dict[str, dict[str, Any]]:
    """Every step that was entered, in the order of the playbook."""
    found: dict[str, dict[str, Any]] = {}
    live = _live(state)
    for name in state.net.steps:
        runs, last = state.entries.get(name, 0), state.steps.get(name)
        if name in live:
            found[name] = {"status": live[name], "runs": runs, "result": None, "error": None}
        elif last is not None:
            found[name] = {"status": last.status, "runs": runs, "result": last.result, "error": last.error}
    return found


def _live(state: Execution) -> dict[str, str]:
    """How far the steps are that something is going on at; of several runs of a step the busiest counts."""
    found = {state.tokens[token].step: "held" for token in state.held}
    for run in state.runs.values():
        if any(lease.run == run.id for lease in state.leases.values()):
            status = "running"
        elif run.parked:
            status = "waiting"
        else:
            status = "scheduled" if run.started is None else "running"
        found[run.step] = max(status, found.get(run.step, "held"), key=BUSY.index)
    return found


def located(error: dict[str, Any] | None, file: str, places: dict[str, Mark]) -> dict[str, Any] | None:
    """The error with file, line and column of the task, or of the step, that failed."""
    if error is None:
        return None
    step, task = error.get("step"), error.get("task")
    mark = places.get(f"{step}/{task}") or places.get(f"{step}/{error.get('place')}") or places.get(str(step))
    return {
        "kind": error.get("kind"),
        "message": error.get("message"),
        "step": step or None,
        "task": task,
        "attempt": error.get("attempt"),
        "file": file,
        "line": mark.line if mark else None,
        "column": mark.column if mark else None,
    }


def explained(
    found: Explanation, state: Execution, run: str | None, file: str, places: Mapping[str, Mark]
) -> dict[str, Any]:
    """Why a step went as it did, as `noetl explain -o json` and the API show it."""
    step = steps(state).get(found.step)
    return {
        "execution_id": state.id,
        "step": found.step,
        "run": run,
        "status": step["status"] if step else None,
        "runs": state.entries.get(found.step, 0),
        **_place(file, places.get(found.step)),
        "decisions": [_decision(one, file, places) for one in found.decisions],
        "left_out": found.left_out,
        "stands": found.stands,
    }


def _decision(one: ExplainedDecision, file: str, places: Mapping[str, Mark]) -> dict[str, Any]:
    return {
        "seq": one.seq,
        "timestamp": rfc3339(one.at),
        "kind": one.kind,
        "about": one.about,
        "says": one.says,
        "reasons": [_reason(reason, file, places) for reason in one.reasons],
        "differs": one.differs or None,
    }


def _reason(one: Reason, file: str, places: Mapping[str, Mark]) -> dict[str, Any]:
    return {
        "leads_to": one.leads_to,
        "when": one.when,
        "verdict": one.verdict,
        "values": one.values,
        "missing": one.missing,
        "note": one.note or None,
        **_place(file, places.get(one.place)),
    }


def _place(file: str, mark: Mark | None) -> dict[str, Any]:
    return {"file": file, "line": mark.line if mark else None, "column": mark.column if mark else None}
