"""Executions, events and times as the API shows them."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from noetl.engine.envelope import envelope
from noetl.engine.state import Execution, Token
from noetl.reference import Reference
from noetl.runtime.loaded import File
from noetl.runtime.report import located, report, steps
from noetl.store.codec import decode
from noetl.store.ports import Row, Summary
from noetl.timestamps import rfc3339


def stamp(at: float | None) -> str | None:
    """A time as RFC 3339 in UTC."""
    return None if at is None else stamped(at)


def stamped(at: float) -> str:
    return rfc3339(at)


def hashed(content: bytes) -> str:
    """Tells contents apart."""
    return sha256(content).hexdigest()


def plain(value: Any) -> Any:
    """For the encoder: references are shown as references."""
    if isinstance(value, Reference):
        return value.as_data()
    raise TypeError(f"a value of type {type(value).__name__} can't be shown")


def execution(state: Execution, summary: Summary, file: File, now: float) -> dict[str, Any]:
    """What `noetl run -o json` prints, and what is of interest while it goes on."""
    return report(state, file.name, dict(file.places), _seconds(summary, now)) | {
        "name": summary.name,
        "path": summary.path,
        "playbook_id": summary.digest,
        "parent": summary.parent,
        "started": stamp(summary.started),
        "ended": stamp(summary.ended),
        "tokens": tokens(state),
        "progress": progress(state),
    }


def item(summary: Summary, now: float) -> dict[str, Any]:
    """An execution in a list."""
    return {
        "execution_id": summary.execution_id,
        "name": summary.name,
        "path": summary.path,
        "status": summary.status,
        "started": stamp(summary.started),
        "ended": stamp(summary.ended),
        "duration_ms": round(_seconds(summary, now) * 1000, 3),
        "playbook_id": summary.digest,
        "parent": summary.parent,
    }


def state_at(state: Execution, at: float | None, file: File) -> dict[str, Any]:
    """A state of the past."""
    return {
        "execution_id": state.id,
        "seq": state.seq,
        "timestamp": stamp(at),
        "status": state.shown_status,
        "workload": state.workload,
        "ctx": state.ctx,
        "steps": steps(state),
        "tokens": tokens(state),
        "progress": progress(state),
        "result": state.result,
        "error": located(state.error or state.failure, file.name, dict(file.places)),
    }


def tokens(state: Execution) -> list[dict[str, Any]]:
    return [
        {"id": token.id, "step": token.step, "status": _token_status(state, token), "due": stamp(token.due)}
        for token in state.tokens.values()
    ]


def _token_status(state: Execution, token: Token) -> str:
    if token.id in state.held:
        return "held"
    if token.id in state.delayed:
        return "delayed"
    return "waiting" if token.id in state.waiting.get(token.step, ()) else "ready"


def progress(state: Execution) -> dict[str, dict[str, int]]:
    """Loops that are going on, by run."""
    return {
        run.id: {
            "total": run.loop.total,
            "ok": run.loop.ok,
            "failed": run.loop.failed,
            "running": len(run.loop.lanes),
        }
        for run in state.runs.values()
        if run.loop is not None
    }


def event(execution_id: str, row: Row) -> dict[str, Any]:
    """An event in its envelope."""
    return envelope(execution_id, row.seq, row.at, decode(row.type, row.data))


def _seconds(summary: Summary, now: float) -> float:
    return max(0.0, (summary.ended if summary.ended is not None else now) - summary.started)
