"""noetl runs ...: look at runs, stop them, resume them, and speak to them, also while they run in another terminal.

What is to change is decided here, on the same database, and appended to the log; the process that runs it notices.
With `--server` it is asked of the server.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import click

from noetl.cli.history import fork_command, retry_command
from noetl.cli.live import Follower, View, span
from noetl.cli.local import (
    ALL,
    Engine,
    duration,
    engine,
    is_owned,
    json_or_file,
    opened,
    opened_file,
    pick,
    stamp,
)
from noetl.cli.output import emit, output_option
from noetl.cli.past import diff_command, export_command, replay_command
from noetl.cli.place import Place, place_option
from noetl.cli.prune import prune_command
from noetl.cli.run import carry, collect_garbage, conclude, error_text, follow, interruptible, resume_command
from noetl.clock import SystemClock
from noetl.engine import events as e
from noetl.engine.commands import Cancel, Command, Pause, Resume, Signal
from noetl.engine.envelope import envelope
from noetl.engine.state import Execution
from noetl.errors import Conflict, Interrupted, TimedOut, UsageError
from noetl.model.identity import uuid7
from noetl.model.status import ENDED, OPEN, STATUSES
from noetl.printable import printable
from noetl.runtime.catalog import Source
from noetl.runtime.embedded import LOOK_SECONDS, open_below
from noetl.runtime.runtime import Answer, Runtime
from noetl.settings import ServerAddress
from noetl.store.codec import decode
from noetl.store.ports import Row, Store, Summary
from noetl.store.sqlite import Owner, SqliteStore

PAGE = 1000
SHOWN = ("execution_id", "status", "result", "ctx", "steps", "error", "events", "duration_ms", "started", "ended")

run_argument = click.argument("run", metavar="RUN")


@click.group("runs")
def command() -> None:
    """Look at runs, stop them, resume them, and speak to them. RUN is an id, the beginning of one, or `last`."""


command.add_command(prune_command)
command.add_command(fork_command)
command.add_command(retry_command)
command.add_command(replay_command)
command.add_command(diff_command)
command.add_command(export_command)


# -- looking --------------------------------------------------------------------------------------------------------


@command.command("list")
@click.option("--status", type=click.Choice(STATUSES), help="Only runs of this status.")
@click.option("--limit", type=click.IntRange(min=1), default=PAGE, show_default=True, help="At most so many.")
@place_option
@output_option()
def list_command(status: str | None, limit: int, place: Place, output: str | None) -> None:
    """List runs, newest first."""
    if place.server is not None:
        from noetl.cli import remote, remote_runs

        with remote.server(place.server) as server:
            remote_runs.list_runs(server, status, limit, output)
        return
    with opened(place.db) as store:
        found = sorted(store.summaries(status=status, limit=ALL), key=_age, reverse=True)[:limit]
        if output is not None:
            emit([_listed(one) for one in found], output)
        else:
            emit([_listed_for_people(store, one) for one in found], "table")


def _age(one: Summary) -> tuple[float, str]:
    return one.started, one.execution_id


def _listed(one: Summary) -> dict[str, Any]:
    return {
        "execution_id": one.execution_id,
        "name": one.name,
        "path": one.path,
        "status": one.status,
        "started": stamp(one.started),
        "ended": stamp(one.ended),
        "duration_ms": round(duration(one) * 1000, 3),
    }


def _listed_for_people(store: Store, one: Summary) -> dict[str, Any]:
    dead = one.status not in ENDED and not is_owned(store, one)
    return {
        "run": one.execution_id,
        "name": one.name,
        "status": f"{one.status} (no process)" if dead else one.status,
        "started": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one.started)),
        "took": span(duration(one)),
    }


@command.command("show")
@run_argument
@place_option
@output_option()
def show_command(run: str, place: Place, output: str | None) -> None:
    """Show a run: its status, its steps, its result, and what went wrong."""
    if place.server is not None:
        from noetl.cli import remote

        with remote.server(place.server) as server:
            _show_found(server.execution(server.pick(run)), output)
        return
    with opened(place.db) as store:
        asyncio.run(_show(store, pick(store, run), output))


async def _show(store: Store, summary: Summary, output: str | None) -> None:
    async with engine(store) as one:
        state = (await one.embedded.runtime.load(summary.execution_id)).state
        names = {"name": summary.name, "started": stamp(summary.started), "ended": stamp(summary.ended)}
        _show_found(one.report(state) | names, output, one.catalog.source(state.digest))


def _show_found(found: dict[str, Any], output: str | None, source: Source | None = None) -> None:
    if output is not None:
        emit({key: found[key] for key in SHOWN}, output)
        return
    click.echo(f"{printable(found['name'])}  {found['status']}  {found['execution_id']}")
    click.echo(f"started {found['started']}, {span(found['duration_ms'] / 1000)}, {found['events']:,} events")
    rows = [
        {"step": name, "status": step["status"], "runs": step["runs"], "result": step["result"]}
        for name, step in found["steps"].items()
    ]
    if rows:
        click.echo()
        emit(rows, "table")
    if found["error"] is not None:
        click.echo(f"\n{error_text(found['error'], source)}")
    elif found["status"] in ENDED:
        click.echo()
        emit(found["result"], "json")


@command.command("events")
@run_argument
@click.option("--after", type=click.IntRange(min=0), default=0, metavar="SEQ", help="Only events after this one.")
@place_option
@output_option()
def events_command(run: str, after: int, place: Place, output: str | None) -> None:
    """Print the log of a run; `-o jsonl` prints one envelope a line."""
    if place.server is not None:
        from noetl.cli import remote

        with remote.server(place.server) as server:
            _print_events(server.events(server.pick(run), after), output)
        return
    with opened(place.db) as store:
        _print_events(_pages(store, pick(store, run).execution_id, after), output)


def _print_events(pages: Iterator[list[dict[str, Any]]], output: str | None) -> None:
    if output == "jsonl":
        for page in pages:
            emit(page, output)
    elif output is not None:
        emit([one for page in pages for one in page], output)
    else:
        keys = ("seq", "timestamp", "event_type", "entity_id", "status")
        emit([{key: one[key] for key in keys} for page in pages for one in page], "table")


def _pages(store: Store, execution: str, after: int) -> Iterator[list[dict[str, Any]]]:
    while rows := store.read(execution, after, PAGE):
        yield _envelopes(execution, rows)
        after = rows[-1].seq


def _envelopes(execution: str, rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [envelope(execution, row.seq, row.at, decode(row.type, row.data)) for row in rows]


@command.command("logs")
@run_argument
@place_option
@output_option()
def logs_command(run: str, place: Place, output: str | None) -> None:
    """Print what the tasks of a run wrote to their standard output and error."""
    lines = _lines(run, place)
    if output is not None:
        emit(lines, output)
        return
    for one in lines:
        click.echo(f"{click.style(printable(one['task']), fg='cyan')} | {printable(one['line'])}")


def _lines(run: str, place: Place) -> list[dict[str, Any]]:
    if place.server is not None:
        from noetl.cli import remote, remote_runs

        with remote.server(place.server) as server:
            return remote_runs.logs(server, run)
    with opened(place.db) as store:
        lines = store.output(pick(store, run).execution_id)
    keys = ("number", "task", "timestamp", "stream", "line")
    rows = [(number, task, stamp(at), stream, line) for number, task, at, stream, line in lines]
    return [dict(zip(keys, row, strict=True)) for row in rows]


# -- following ------------------------------------------------------------------------------------------------------


@command.command("watch")
@run_argument
@click.option("--timeout", type=click.FloatRange(0), metavar="SECONDS", help="Wait at most so long; then exit 124.")
@place_option
@output_option()
@click.pass_context
def watch_command(ctx: click.Context, run: str, timeout: float | None, place: Place, output: str | None) -> None:
    """Follow a run until it ends, then print its result; `-o jsonl` prints its events as they come."""
    if place.server is not None:
        from noetl.cli import remote, remote_runs

        with remote.server(place.server) as server:
            ctx.exit(remote_runs.watch(server, server.pick(run), output, timeout))
    with opened(place.db) as store:
        ctx.exit(asyncio.run(_watch(store, pick(store, run), output, place, timeout)))


async def _watch(store: Store, summary: Summary, output: str | None, place: Place, seconds: float | None) -> int:
    execution = summary.execution_id
    async with engine(store) as one:
        state = (await one.embedded.runtime.load(execution)).state
        if not state.over and not is_owned(store, summary):
            again = resume_command(execution, place)
            click.echo(f"no process runs it at the moment; `{again}` carries on", err=True)
        with interruptible(f"{execution} was left to itself"):
            try:
                async with asyncio.timeout(seconds):
                    state = await _followed(one, state, output)
            except TimeoutError:
                raise TimedOut(f"{execution} has not ended in time; it goes on") from None
        if output == "jsonl":
            return 0 if state.status == "succeeded" else 1
        return conclude(one, state, output)


async def _followed(one: Engine, state: Execution, output: str | None, store: SqliteStore | None = None) -> Execution:
    """Show a run of another process until it ends; given a store, also until no process owns it any more."""
    runtime = one.embedded.runtime
    follower = _follower(one, state, output)
    try:
        while True:
            rows = await follower.look()
            if rows and rows[-1].type == e.PlaybookProcessed.name:
                break
            if not rows and store is not None and not Owner.is_owned(store, state.id):
                break
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        follower.view.close()
    return (await runtime.load(state.id)).state


def _follower(one: Engine, state: Execution, output: str | None) -> Follower:
    if output is None:
        return follow(one, state)
    runtime = one.embedded.runtime
    view: View = _Envelopes(state.id) if output == "jsonl" else _Nothing()
    return Follower(runtime.store, runtime.thread, state.id, view)


class _Nothing:
    """Shows nothing on the way."""

    def show(self, rows: Sequence[Row]) -> None:
        pass

    def close(self) -> None:
        pass


class _Envelopes(_Nothing):
    """Prints events as they come."""

    def __init__(self, execution: str) -> None:
        self.execution = execution

    def show(self, rows: Sequence[Row]) -> None:
        for one in _envelopes(self.execution, rows):
            emit(one, "jsonl")


# -- commands to a run ----------------------------------------------------------------------------------------------


@command.command("cancel")
@run_argument
@click.option("--reason", default="", help="Why; it is kept in the log.")
@place_option
@output_option()
def cancel_command(run: str, reason: str, place: Place, output: str | None) -> None:
    """Stop a run for good, and the runs it has started."""
    if place.server is not None:
        _ask_server(place.server, run, "cancel", output, {"reason": reason})
        return
    with opened(place.db, "write") as store:
        summary = pick(store, run)
        state = asyncio.run(_cancel(store, summary.execution_id, reason))
        if state.status != "cancelled":
            raise Conflict(f"{state.id} has ended before: it {state.status}")
        _say(state.id, state.status, output)


async def _cancel(store: Store, execution: str, reason: str) -> Execution:
    runtime = Runtime(store, SystemClock())
    try:
        state = (await runtime.handle(execution, Cancel(reason))).state
        for child in open_below(store, execution):
            await runtime.handle(child, Cancel("the run that started it was cancelled"))
        return state
    finally:
        runtime.thread.shutdown()


@command.command("pause")
@run_argument
@place_option
@output_option()
def pause_command(run: str, place: Place, output: str | None) -> None:
    """Hand out nothing new; what is running finishes. `resume` goes on."""
    if place.server is not None:
        _ask_server(place.server, run, "pause", output)
        return
    with opened(place.db, "write") as store:
        state = asyncio.run(_ask(store, pick(store, run).execution_id, Pause())).state
        if state.status != "paused":
            raise Conflict(f"{state.id} can't be paused: it is {state.status}")
        _say(state.id, state.status, output)


@command.command("signal")
@run_argument
@click.argument("name")
@click.option("--data", metavar="JSON|@FILE", help="The payload of the signal.")
@click.option("--id", "number", help="Sent twice with the same id, it counts once.")
@place_option
@output_option()
def signal_command(run: str, name: str, data: str | None, number: str | None, place: Place, output: str | None) -> None:
    """Send a signal to a run: prints `accepted`, `duplicate` if its id has come before, or `late` after the end."""
    payload = json_or_file(data, "--data")
    number = number or uuid7(time.time(), os.urandom(8))
    if place.server is not None:
        execution, word = _signal_there(place.server, run, Signal(name, number, payload))
    else:
        with opened(place.db, "write") as store:
            execution = pick(store, run).execution_id
            answer = asyncio.run(_ask(store, execution, Signal(name, number, payload)))
            known = number in answer.state.signal_ids
            word = "accepted" if answer.events else "duplicate" if known else "late"
    if output is None:
        click.echo(word)
    else:
        emit({"execution_id": execution, "name": name, "id": number, "answer": word}, output)


def _signal_there(address: ServerAddress, run: str, signal: Signal) -> tuple[str, str]:
    from noetl.cli import remote

    with remote.server(address) as server:
        execution = server.pick(run)
        body = {"name": signal.type, "id": signal.id, "payload": signal.payload}
        answer = server.post(f"/executions/{execution}/signals", body)
    word = next((word for word in ("duplicate", "late") if answer.get(word)), "accepted")
    return execution, word


def _ask_server(
    address: ServerAddress, run: str, verb: str, output: str | None, body: dict[str, Any] | None = None
) -> None:
    from noetl.cli import remote

    with remote.server(address) as server:
        execution = server.pick(run)
        answer = server.post(f"/executions/{execution}/{verb}", body)
        _say(execution, (answer or server.execution(execution))["status"], output)


async def _ask(store: Store, execution: str, command: Command) -> Answer:
    """Decide a command on the log as it is, and append what follows; again if somebody else was faster."""
    runtime = Runtime(store, SystemClock())
    try:
        return await runtime.handle(execution, command)
    finally:
        runtime.thread.shutdown()


def _say(execution: str, status: str, output: str | None) -> None:
    if output is None:
        click.echo(f"{execution} {status}")
    else:
        emit({"execution_id": execution, "status": status}, output)


# -- carrying on ----------------------------------------------------------------------------------------------------


@command.command("resume")
@click.argument("run", metavar="[RUN]", required=False)
@click.option("--all", "every", is_flag=True, help="Every run that is paused or whose process is gone.")
@place_option
@output_option()
@click.pass_context
def resume_command_(ctx: click.Context, run: str | None, every: bool, place: Place, output: str | None) -> None:
    """Carry on a run that was paused or whose process is gone, and wait for its end as `noetl run` does."""
    if (run is None) is not every:
        raise UsageError("name a RUN, or say --all")
    if place.server is not None:
        ctx.exit(_resume_there(place.server, run, output))
    collect_garbage()
    with opened_file(place.db) as store:
        chosen = _unfinished(store) if run is None else [pick(store, run)]
    if run is not None:
        ctx.exit(asyncio.run(_resume(chosen[0], output, place)))
    ctx.exit(asyncio.run(_resume_all(chosen, output, place)))


def _resume_there(address: ServerAddress, run: str | None, output: str | None) -> int:
    """A server carries on by itself what has lost its process; only what is paused waits for a word."""
    from noetl.cli import remote, remote_runs

    with remote.server(address) as server:
        if run is not None:
            execution = server.pick(run)
            server.post(f"/executions/{execution}/resume")
            return remote_runs.watch(server, execution, output)
        paused = [one["execution_id"] for one in server.pages("/executions", ALL, status="paused")]
        for execution in paused:
            server.post(f"/executions/{execution}/resume")
        return max((remote_runs.watch(server, execution, output) for execution in paused), default=0)


def _unfinished(store: SqliteStore) -> list[Summary]:
    """Runs that are open, or have left others open, and that nobody runs; or that are paused."""
    tops = {}
    for status in OPEN:
        for one in store.summaries(status=status, limit=ALL):
            while one.parent is not None:
                one = pick(store, one.parent)
            tops[one.execution_id] = one
    return [one for one in tops.values() if one.local and (one.status == "paused" or not is_owned(store, one))]


def _is_open(store: Store, one: Summary) -> bool:
    """Whether it has not ended, or has left runs that it started: its process died before it could end them."""
    return one.status not in ENDED or bool(open_below(store, one.execution_id))


async def _resume_all(chosen: list[Summary], output: str | None, place: Place) -> int:
    """All at once, each with an engine of its own, so one that waits does not hold up the others."""
    if not chosen and output is None:
        click.echo("nothing to resume", err=True)
    found: list[dict[str, Any]] = []
    form = None if output is None else found
    codes = await asyncio.gather(*(_resume(one, output, place, form) for one in chosen), return_exceptions=True)
    if output is not None:
        emit(found, output)
    errors = [code for code in codes if isinstance(code, BaseException)]
    if errors:
        raise next((error for error in errors if isinstance(error, Interrupted)), errors[0])
    return max((code for code in codes if isinstance(code, int)), default=0)


async def _resume(summary: Summary, output: str | None, place: Place, into: list[dict[str, Any]] | None = None) -> int:
    """Carry on a run here, or wake it where it lives and follow it; take over if that process dies meanwhile."""
    execution = summary.execution_id
    with opened(place.db) as store:
        is_open = _is_open(store, summary)
    if not is_open:
        raise Conflict(f"{execution} has ended: it {summary.status}")
    if not summary.local:
        raise Conflict(f"{execution} is run by servers: `noetl server` on this database carries it on by itself")
    if summary.parent is not None:
        raise Conflict(f"{execution} is a part of {summary.parent}: `{resume_command(summary.parent, place)}`")
    while True:
        with opened_file(place.db, "write") as store, Owner.acquire(store, execution) or nullcontext() as owner:
            async with engine(store) as one:
                if owner is not None:
                    begin = _taken_over(one, execution)
                    state = await carry(one, execution, output, place, begin, store.seq(execution))
                else:
                    state = await _resumed_elsewhere(one, store, execution, output)
                if state.over and into is not None:
                    into.append(one.report(state))
                    return 0 if state.status == "succeeded" else 1
                if state.over:
                    return conclude(one, state, output)


async def _taken_over(one: Engine, execution: str) -> Execution:
    state = await one.embedded.adopt(execution)
    if state.status == "paused":
        state = (await one.embedded.runtime.handle(execution, Resume())).state
    return state


async def _resumed_elsewhere(one: Engine, store: SqliteStore, execution: str, output: str | None) -> Execution:
    """The process that runs it is alive: tell it to go on, and follow it."""
    answer = await one.embedded.runtime.handle(execution, Resume())
    if not answer.events and not answer.state.over:
        raise Conflict(f"{execution} is running in another process; `noetl runs watch {execution}` follows it")
    with interruptible(f"{execution} goes on in another process"):
        return await _followed(one, answer.state, output, store)
