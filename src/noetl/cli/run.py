"""noetl run FILE: run a playbook on the engine in this process, wait, and exit by its outcome."""

from __future__ import annotations

import asyncio
import gc
import os
import shlex
import signal
import sys
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

import click
import msgspec

from noetl.cli.live import Follower, Lines, Tree, span
from noetl.cli.local import Engine, engine, json_or_file, opened_file, owned
from noetl.cli.output import emit, output_option
from noetl.cli.place import Place, place_option
from noetl.cli.prune import prune_a_few
from noetl.cli.report import excerpt, print_problems, summary
from noetl.engine.state import Execution
from noetl.errors import Interrupted, StoreError, UsageError
from noetl.model.identity import uuid7
from noetl.printable import printable
from noetl.runtime.catalog import Source, read
from noetl.runtime.embedded import LOOK_SECONDS, Embedded
from noetl.runtime.obstacles import Obstacle, obstacles
from noetl.runtime.runtime import Refresh
from noetl.settings import ServerAddress, nats_settings
from noetl.store.sqlite import SqliteStore


@click.command("run")
@click.argument("file", metavar="FILE")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Set a part of the payload to a YAML scalar.")
@click.option("--set-string", "strings", multiple=True, metavar="KEY=TEXT", help="Set a part of the payload to text.")
@click.option("--payload", metavar="JSON|@FILE", help="The payload: a JSON object, or a file that holds one.")
@click.option("--verify", is_flag=True, help="Check the log against every invariant when the run ends.")
@place_option
@output_option()
@click.pass_context
def command(
    ctx: click.Context,
    file: str,
    sets: tuple[str, ...],
    strings: tuple[str, ...],
    payload: str | None,
    verify: bool,
    place: Place,
    output: str | None,
) -> None:
    """Run a playbook, wait for its end, and print its result. `-` reads standard input.

    The payload is laid over the playbook's workload; dots in the KEY of `--set` lead into maps. The exit code is 0 if
    the run succeeded, 1 if it failed or was cancelled, 3 if the playbook can't run, and 130 after Ctrl-C: then the run
    can be resumed. With `--verify` it is also 1 if the log violates an invariant of the engine; the violations are
    printed to stderr. Include them in a bug report.
    """
    given = payload_of(json_or_file(payload, "--payload"), sets, strings)
    source = read(file)
    if not runnable(source, output is not None, there=place.server is not None):
        ctx.exit(3)
    if place.server is not None:
        ctx.exit(_run_there(place.server, source, given, output, verify))
    collect_garbage()
    with opened_file(place.db, "create") as store:
        execution = uuid7(time.time(), os.urandom(8))
        code = asyncio.run(_run(store, execution, source, given, output, place))
    ctx.exit(max(code, _verify(place, execution)) if verify else code)


def _run_there(
    address: ServerAddress, source: Source, payload: dict[str, Any], output: str | None, verify: bool
) -> int:
    """The text of the playbook goes to the server, and runs there without being registered."""
    from noetl.cli.remote import LONG, server
    from noetl.cli.remote_runs import watch

    with server(address) as one:
        execution = one.start({"playbook": source.text.decode("utf-8-sig"), "payload": payload})
        code = watch(one, execution, output, source=source)
        if not verify:
            return code
        return max(code, _tell_violations(one.get(f"/executions/{execution}/verify", timeout=LONG)["violations"]))


def _verify(place: Place, execution: str) -> int:
    from noetl.runtime.audit import Audit

    with opened_file(place.db) as store:
        (summary,) = store.summaries(prefix=execution, limit=1)
        return _tell_violations([msgspec.to_builtins(violation) for violation in Audit(store).of(summary)])


def _tell_violations(violations: list[dict[str, Any]]) -> int:
    """The exit code."""
    from noetl.cli.verify import print_violations, verdict

    print_violations(violations, err=True)
    click.echo(f"log: {verdict(violations)}", err=True)
    return 1 if violations else 0


def collect_garbage() -> None:
    """The command line starts without it; a run can be long. What was made so far will stay."""
    gc.freeze()
    gc.enable()


async def _run(
    store: SqliteStore, execution: str, source: Source, payload: dict[str, Any], output: str | None, place: Place
) -> int:
    with owned(store, execution):
        async with engine(store) as one:
            digest = one.catalog.add(source)
            begin = one.embedded.start(execution, digest, payload, {})
            code = conclude(one, await carry(one, execution, output, place, begin), output)
            prune_a_few(store)
            return code


# -- to the end -----------------------------------------------------------------------------------------------------


async def carry(
    one: Engine, execution: str, output: str | None, place: Place, begin: Awaitable[Execution], known: int = 0
) -> Execution:
    """Begin, drive to the end and show it on the way. Interrupted leaves a run that can be resumed.

    `known` is how many events are old and not told again.
    """
    again = resume_command(execution, place)
    with interruptible(f"interrupted; `{again}` carries on"):
        state = await begin
        follower = follow(one, state, known) if output is None else None
        try:
            if follower is not None:
                follower.follow(lambda: one.embedded.runtime.moved)
            return await _through(one.embedded, execution)
        except StoreError as error:
            raise StoreError(f"{error}; once that is mended, `{again}` carries on") from error
        finally:
            if follower is not None:
                await follower.close()


async def _through(embedded: Embedded, execution: str) -> Execution:
    """Drive to the end. While it is paused, look whether somebody has resumed or cancelled it."""
    while True:
        state = await embedded.drive(execution)
        if state.over:
            return state
        await asyncio.sleep(LOOK_SECONDS)
        await embedded.runtime.handle(execution, Refresh())


_interruptible: set[asyncio.Task[Any]] = set()
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interruptible(message: str) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the block, and such blocks of other tasks, with Interrupted; a second one is death."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def stop() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)
        for one in _interruptible:
            one.cancel()

    if not _interruptible:
        for number in SIGNALS:
            loop.add_signal_handler(number, stop)
    _interruptible.add(task)
    try:
        yield
    except asyncio.CancelledError:
        raise Interrupted(message) from None
    finally:
        _interruptible.discard(task)
        if not _interruptible:
            for number in SIGNALS:
                loop.remove_signal_handler(number)


def resume_command(execution: str, place: Place) -> str:
    """What to type to carry on."""
    return shlex.join(["noetl", "runs", "resume", execution, *place.flags])


# -- showing --------------------------------------------------------------------------------------------------------


def follow(one: Engine, state: Execution, after: int = 0) -> Follower:
    """A tree on a terminal; elsewhere lines of what comes after an event."""
    runtime = one.embedded.runtime
    name = state.net.playbook.name
    if sys.stderr.isatty():
        return Follower(runtime.store, runtime.thread, state.id, Tree(name, state.id))
    click.echo(f"{printable(name)} {state.id}", err=True)
    return Follower(runtime.store, runtime.thread, state.id, Lines(after))


def conclude(one: Engine, state: Execution, output: str | None) -> int:
    """Print what came of a run; the exit code."""
    found = one.report(state)
    if output is not None:
        emit(found, output)
    else:
        _tell(found, one.catalog.source(state.digest), state)
    return 0 if state.status == "succeeded" else 1


def _tell(found: dict[str, Any], source: Source, state: Execution) -> None:
    colour = "green" if state.status == "succeeded" else "red"
    verdict = click.style(state.status, fg=colour, bold=True)
    reason = f": {printable(state.cancel_reason)}" if state.status == "cancelled" and state.cancel_reason else ""
    if found["error"] is not None:
        click.echo(error_text(found["error"], source), err=True)
    name = printable(state.net.playbook.name)
    click.echo(f"{name} {verdict} in {span(found['duration_ms'] / 1000)}{reason}", err=True)
    if state.status == "succeeded":
        emit(found["result"], "json")


def error_text(error: dict[str, Any], source: Source | None) -> str:
    """`playbook.yaml:12:9: step fetch, task call, attempt 3: http_status: ...`, and the line, where it is at hand, with
    a caret under it."""
    line, column = error["line"], error["column"]
    place = printable(f"{error['file']}:{line}:{column}" if line else error["file"])
    who = [printable(f"{word} {error[word]}") for word in ("step", "task", "attempt") if error[word]]
    parts = [click.style(place, bold=True), *([", ".join(who)] if who else [])]
    kind, message = printable(str(error["kind"])), printable(str(error["message"]), lines=True)
    text = f"{': '.join(parts)}: {click.style(kind, fg='red', bold=True)}: {message}"
    shown = excerpt(line, column, source.line(line), "red") if line and source is not None else []
    return "\n".join([text, *shown])


# -- before anything runs -------------------------------------------------------------------------------------------


def runnable(source: Source, quiet: bool, *, there: bool = False) -> bool:
    """Whether the playbook can run, here or at a server, which says itself whether it has NATS; if not, every reason is
    on stderr."""
    problems = source.loaded.problems
    if source.loaded.playbook is None:
        print_problems(problems, stream=sys.stderr)
        click.echo(f"{source.shown}: {summary(problems)}; nothing was run", err=True)
        return False
    if not quiet:
        print_problems(problems, stream=sys.stderr)
    found = list(obstacles(source.loaded.playbook, nats=there or nats_settings() is not None))
    for obstacle in found:
        click.echo(_obstacle_text(source, obstacle), err=True)
    return not found


def _obstacle_text(source: Source, obstacle: Obstacle) -> str:
    mark = source.places.get(obstacle.place) or source.places.get(obstacle.place.partition("/")[0])
    where = f"{source.shown}:{mark.line}:{mark.column}" if mark else source.shown
    title = click.style("error", fg="red", bold=True)
    text = f"{click.style(where, bold=True)}: {title}: {obstacle.reason}"
    return "\n".join([text, *(excerpt(mark.line, mark.column, source.line(mark.line), "red") if mark else [])])


# -- the payload ----------------------------------------------------------------------------------------------------


def payload_of(payload: Any, sets: tuple[str, ...], strings: tuple[str, ...]) -> dict[str, Any]:
    """The payload with single values laid over it."""
    if payload is None:
        payload = {}
    if not isinstance(payload, dict):
        raise UsageError('--payload must be a JSON object, such as \'{"name": "Ada"}\'')
    for option, texts in (("--set", sets), ("--set-string", strings)):
        for text in texts:
            key, equals, value = text.partition("=")
            if not equals or not all(key.split(".")):
                raise UsageError(f"{option} {text}: write it as KEY=VALUE, for instance a.b=1")
            _put(payload, key.split("."), scalar(value) if option == "--set" else value, f"{option} {text}")
    return payload


def _put(payload: dict[str, Any], path: list[str], value: Any, said: str) -> None:
    *outer, last = path
    for key in outer:
        payload = payload.setdefault(key, {})
        if not isinstance(payload, dict):
            raise UsageError(f"{said}: {key!r} is no map, so nothing can be set inside it")
    payload[last] = value


class _Refuses:
    """Stands in for the reader: says why a scalar can't be a value."""

    def refuse(self, span: Any, message: str) -> None:
        raise UsageError(f"--set: {message}; --set-string takes it as text")


def scalar(text: str) -> Any:
    """The value of a YAML scalar, read as in a playbook."""
    from noetl.dsl.reader import resolve
    from noetl.dsl.tree import NOWHERE

    if text[:1] in ("'", '"'):
        return _quoted(text)
    refuses: Any = _Refuses()
    return resolve(text, refuses, NOWHERE)


def _quoted(text: str) -> Any:
    """What stands between quotes; text that only begins with one is itself."""
    import yaml

    try:
        events = list(yaml.parse(text, Loader=yaml.SafeLoader))
    except yaml.YAMLError:
        return text
    scalars = [event for event in events if isinstance(event, yaml.ScalarEvent)]
    return scalars[0].value if len(events) == 5 and len(scalars) == 1 else text
