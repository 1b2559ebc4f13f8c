"""Runs of a server, shown and steered as those of a database are."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from types import FrameType
from typing import Any

import click
import msgspec

from noetl.cli.live import Lines, Tree, View, span
from noetl.cli.output import emit
from noetl.cli.remote import Envelope, Server
from noetl.cli.run import SIGNALS, error_text
from noetl.engine.events import EVENTS
from noetl.errors import Interrupted, NoetlError
from noetl.printable import printable
from noetl.runtime.catalog import Source
from noetl.store.codec import encode
from noetl.store.ports import Row

LISTED = ("execution_id", "name", "path", "status", "started", "ended", "duration_ms")


# -- looking --------------------------------------------------------------------------------------------------------


def list_runs(server: Server, status: str | None, limit: int, output: str | None) -> None:
    found = sorted(server.pages("/executions", limit, status=status), key=_age, reverse=True)
    if output is not None:
        emit([{key: one[key] for key in LISTED} for one in found], output)
    else:
        emit([_for_people(one) for one in found], "table")


def _age(one: dict[str, Any]) -> tuple[str, str]:
    """Ids of children are not in the order of time."""
    return one["started"], one["execution_id"]


def _for_people(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "run": one["execution_id"],
        "name": one["name"],
        "status": one["status"],
        "started": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds(one["started"]))),
        "took": span(one["duration_ms"] / 1000),
    }


def seconds(stamp: str) -> float:
    """The time that a text in RFC 3339 says."""
    return datetime.fromisoformat(stamp).timestamp()


def logs(server: Server, run: str) -> list[dict[str, Any]]:
    """Lines that the tasks of a run have written."""
    path, after, found = f"/executions/{server.pick(run)}/logs", 0, []
    while page := server.get(path, after=after)["items"]:
        found += page
        after = page[-1]["number"]
    return found


# -- following ------------------------------------------------------------------------------------------------------


def watch(
    server: Server, execution: str, output: str | None, limit: float | None = None, source: Source | None = None
) -> int:
    """Show a run until it ends, then what came of it; the exit code. `source` is what it runs, where that is here."""
    until = None if limit is None else time.monotonic() + limit
    with _interruptible(f"{execution} goes on at the server"):
        _follow(server, execution, output, until)
    found = server.execution(execution)
    if output != "jsonl":
        conclude(found, output, source)
    return 0 if found["status"] == "succeeded" else 1


def _follow(server: Server, execution: str, output: str | None, until: float | None) -> None:
    view: View | None = None
    if output is None:
        name = str(server.execution(execution).get("name", ""))
        view = Tree(name, execution) if sys.stderr.isatty() else Lines()
        if isinstance(view, Lines):
            click.echo(f"{printable(name)} {execution}", err=True)
    try:
        for one in server.follow(execution, until):
            if output == "jsonl":
                emit(one, output)
            elif view is not None and (row := row_of(one)) is not None:
                view.show([row])
    finally:
        if view is not None:
            view.close()


def row_of(one: Envelope) -> Row | None:
    """The event as views take it; None for one that this version does not know."""
    kind = EVENTS.get(one["event_type"])
    if kind is None:
        return None
    try:
        event = msgspec.convert(one["payload"], kind, strict=False)
        return Row(one["seq"], one["event_type"], seconds(one["timestamp"]), encode(event), b"")
    except (msgspec.ValidationError, NoetlError):
        return None


@contextmanager
def _interruptible(message: str) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the block with Interrupted."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Interrupted(message)

    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# -- the end --------------------------------------------------------------------------------------------------------

SHOWN = ("execution_id", "status", "result", "ctx", "steps", "error", "events", "duration_ms")


def conclude(found: dict[str, Any], output: str | None, source: Source | None) -> None:
    """Print what came of a run as `noetl run` does."""
    if source is not None and found["error"] is not None:
        found["error"]["file"] = source.shown
    if output is not None:
        emit({key: found[key] for key in SHOWN}, output)
        return
    if found["error"] is not None:
        click.echo(error_text(found["error"], source), err=True)
    verdict = click.style(found["status"], fg="green" if found["status"] == "succeeded" else "red", bold=True)
    name = printable(found.get("name", ""))
    click.echo(f"{name} {verdict} in {span(found['duration_ms'] / 1000)}", err=True)
    if found["status"] == "succeeded":
        emit(found["result"], "json")
