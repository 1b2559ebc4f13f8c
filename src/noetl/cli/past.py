"""noetl runs replay, diff and export: a log folded again, two runs side by side, a run as a file."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import click
import msgspec

from noetl.cli.local import engine, opened, pick, stamp
from noetl.cli.output import emit, output_option
from noetl.cli.place import Place, place_option
from noetl.cli.run import runnable
from noetl.engine.envelope import envelope
from noetl.errors import UsageError
from noetl.printable import printable
from noetl.reference import KEYCHAIN, SECRET, Reference
from noetl.runtime import history
from noetl.runtime.catalog import Source, read
from noetl.runtime.report import report
from noetl.settings import ServerAddress
from noetl.store.codec import decode
from noetl.store.ports import Store, Summary

PAGE = 1000
PASSING = frozenset(["worker", "claim", "due", "duration_ms", "moved", "source_id", "action_id"])
"""Fields of events that differ from run to run and mean nothing."""
COMPARED = ("status", "result", "error")

Run = dict[str, Any]


# -- replay ---------------------------------------------------------------------------------------------------------


@click.command("replay")
@click.argument("run", metavar="RUN")
@click.option("--playbook", metavar="FILE", help="Decide it anew under this playbook, up to the first difference.")
@place_option
@output_option()
@click.pass_context
def replay_command(ctx: click.Context, run: str, playbook: str | None, place: Place, output: str | None) -> None:
    """Fold the log of a run again, and compare with what is stored; exits with 1 if it is not equal.

    With --playbook the log is decided anew: what came from outside is taken from it, and what the engine would say is
    compared, up to the first difference. Nothing is called and nothing is written.
    """
    if place.server is not None:
        raise UsageError(
            "a log is replayed at its database: `noetl runs replay RUN --db URL`, also while a server runs"
        )
    source = read(playbook) if playbook is not None else None
    if source is not None and not runnable(source, quiet=output is not None):
        ctx.exit(3)
    with opened(place.db) as store:
        found = asyncio.run(_replay(store, pick(store, run).execution_id, source))
    if output is not None:
        emit(found, output)
    else:
        _tell_replay(found)
    ctx.exit(0 if found["equal"] else 1)


async def _replay(store: Store, execution: str, source: Source | None) -> Run:
    async with engine(store) as one:
        runtime = one.embedded.runtime
        if source is None:
            replayed = await history.replay(runtime, execution)
        else:
            digest = runtime.add(source.loaded.require(), source.shown, source.places)
            replayed = await history.replay_with(runtime, execution, digest)
    state, shown = replayed.state, report(replayed.state, "", {}, 0.0)
    found = {
        "execution_id": execution,
        "events": state.seq if replayed.difference is None else replayed.difference.seq - 1,
        **{key: shown[key] for key in ("status", "ctx", "steps")},
        "equal": replayed.equal,
    }
    if source is not None:
        found["first_difference"] = replayed.difference
    plain: Run = msgspec.to_builtins(found, enc_hook=_reference)
    return plain


def _tell_replay(found: Run) -> None:
    click.echo(f"{found['execution_id']}  {found['status']}, {found['events']:,} events")
    difference = found.get("first_difference")
    if difference is None:
        same = "decides all of it as it was" if "first_difference" in found else "equal to what is stored"
        click.echo(same if found["equal"] else click.style("not equal to what is stored", fg="red"))
        return
    click.echo(printable(f"differs at event {difference['seq']}: {difference['message']}"))
    for name in ("logged", "found"):
        click.echo(printable(f"  {name}: {msgspec.json.encode(difference[name]).decode()}"))


def _reference(value: Any) -> Any:
    if isinstance(value, Reference):
        return value.as_data()
    raise TypeError(f"a value of type {type(value).__name__} can't be shown")


# -- diff -----------------------------------------------------------------------------------------------------------


@click.command("diff")
@click.argument("one", metavar="A")
@click.argument("other", metavar="B")
@place_option
@output_option()
@click.pass_context
def diff_command(ctx: click.Context, one: str, other: str, place: Place, output: str | None) -> None:
    """Compare two runs: how they ended, their steps, their ctx, and the first event that differs. Exits with 1 if
    something does. When things happened, and who did them, does not count."""
    if place.server is not None:
        found = _diff_there(place.server, one, other)
    else:
        with opened(place.db) as store:
            a, b = pick(store, one).execution_id, pick(store, other).execution_id
            first = _first(_events(store, a), _events(store, b))
            found = _compared(*asyncio.run(_views(store, a, b)), first)
    if output is not None:
        emit(found, output)
    else:
        _tell_diff(found)
    ctx.exit(0 if found["equal"] else 1)


async def _views(store: Store, a: str, b: str) -> tuple[Run, Run]:
    """Both runs as `noetl run -o json` shows them. The engine closes the database when it ends."""
    async with engine(store) as one:
        load = one.embedded.runtime.load
        return one.report((await load(a)).state), one.report((await load(b)).state)


def _events(store: Store, execution: str, after: int = 0) -> Iterator[Run]:
    while rows := store.read(execution, after, PAGE):
        for row in rows:
            found = envelope(execution, row.seq, row.at, decode(row.type, row.data))
            plain: Run = msgspec.to_builtins(found, enc_hook=_reference)
            yield plain
        after = rows[-1].seq


def _diff_there(address: ServerAddress, one: str, other: str) -> Run:
    from noetl.cli import remote

    with remote.server(address) as server:
        names = [server.pick(one), server.pick(other)]
        a, b = ((event for page in server.events(name) for event in page) for name in names)
        return _compared(server.execution(names[0]), server.execution(names[1]), _first(a, b))


def _first(a: Iterator[Run], b: Iterator[Run]) -> Run | None:
    """The first event that differs; null on the side whose log has ended."""
    for seq, (x, y) in enumerate(zip_longest(map(_lasting, a), map(_lasting, b)), start=1):
        if x != y:
            return {"seq": seq, "a": x, "b": y}
    return None


def _compared(a: Run, b: Run, first: Run | None) -> Run:
    """What differs; of each the two values, null where there is none."""
    found: Run = {"a": a["execution_id"], "b": b["execution_id"], "equal": True}
    found |= {key: {"a": a[key], "b": b[key]} for key in COMPARED if a[key] != b[key]}
    for part in ("ctx", "steps"):
        keys = [key for key in {**a[part], **b[part]} if a[part].get(key) != b[part].get(key)]
        if keys:
            found[part] = {key: {"a": a[part].get(key), "b": b[part].get(key)} for key in keys}
    found["equal"] = len(found) == 3 and first is None
    found["first_difference"] = first
    return found


def _lasting(event: Run) -> Run:
    """The event without what differs from run to run: a child's id comes from the execution's."""
    payload = {key: value for key, value in event["payload"].items() if key not in PASSING}
    if payload.get("until") == "child":
        payload.pop("key", None)
    return {"event_type": event["event_type"], "entity": event["step_run_id"] or event["entity_type"]} | payload


def _tell_diff(found: Run) -> None:
    click.echo(f"a  {found['a']}\nb  {found['b']}")
    if found["equal"]:
        click.echo("no difference")
    for key in COMPARED:
        if key in found:
            _tell_pair(key, found[key])
    for part in ("ctx", "steps"):
        for key, pair in found.get(part, {}).items():
            _tell_pair(f"{part}.{key}", pair)
    if found["first_difference"] is not None:
        _tell_pair(f"event {found['first_difference']['seq']}", found["first_difference"])


def _tell_pair(name: str, pair: Run) -> None:
    click.echo(click.style(printable(name), bold=True))
    for side, colour in (("a", "red"), ("b", "green")):
        click.echo(click.style(printable(f"  {side}: {msgspec.json.encode(pair[side]).decode()}"), fg=colour))


# -- export ---------------------------------------------------------------------------------------------------------


@click.command("export")
@click.argument("run", metavar="RUN")
@click.option("-f", "--file", "path", required=True, metavar="FILE", help="Where to; `-` is standard output.")
@place_option
def export_command(run: str, path: str, place: Place) -> None:
    """Write all that is stored of a run into a JSON file: the run, its playbook, its events, the output of its tasks,
    and the contents of its references."""
    if place.server is not None:
        raise UsageError("a run is exported from its database: `noetl runs export RUN -f FILE --db URL`")
    with opened(place.db) as store:
        summary = pick(store, run)
        events = list(_events(store, summary.execution_id))
        lines = store.output(summary.execution_id)
        found: Run = {"execution": {}, "playbook": _playbook(store, summary.digest), "events": events}
        found["logs"] = [
            {"number": number, "task": task, "timestamp": stamp(at), "stream": stream, "line": line}
            for number, task, at, stream, line in lines
        ]
        found["results"] = dict(_contents(store, events))
        found["execution"] = asyncio.run(_view(store, summary))
    content = msgspec.json.format(msgspec.json.encode(found), indent=2)
    if path == "-":
        emit(found, "json")
        return
    with open(path, "wb", opener=_private) as file:
        file.write(content + b"\n")
    click.echo(f"{summary.execution_id}: {len(events):,} events to {path}", err=True)


def _private(path: str, flags: int) -> int:
    """Open a file with mode 0600, also if the file exists."""
    descriptor = os.open(path, flags, 0o600)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.fchmod(descriptor, 0o600)
    return descriptor


async def _view(store: Store, summary: Summary) -> Run:
    async with engine(store) as one:
        found = one.report((await one.embedded.runtime.load(summary.execution_id)).state)
    times = {"started": stamp(summary.started), "ended": stamp(summary.ended)}
    return found | {"name": summary.name, "path": summary.path, "parent": summary.parent} | times


def _playbook(store: Store, digest: str) -> Run | None:
    stored = store.playbook(digest)
    if stored is None:
        return None
    return {"playbook_id": digest, "file": stored[0], "text": stored[1].decode("utf-8", "replace")}


def _contents(store: Store, data: Any) -> Iterator[tuple[str, Any]]:
    """What references in the data, and in their contents, lead to. What is no JSON is written in base64."""
    todo, seen = [data], set()
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            key, where = value.get("key"), value.get("store")
            is_reference = {"store", "key", "size", "checksum"} <= value.keys() and where not in (SECRET, KEYCHAIN)
            if is_reference and isinstance(key, str) and key not in seen and (content := store.blob(key)) is not None:
                seen.add(key)
                opened_value = _opened(content)
                todo.append(opened_value)
                yield key, opened_value
            todo += value.values()
        elif isinstance(value, list):
            todo += value


def _opened(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {"base64": base64.b64encode(content).decode()}
