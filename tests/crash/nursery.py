"""A process that forks others, each of which runs or resumes one reference playbook and may be killed on the way.

It has imported everything, has no threads and runs no event loop, so a fork costs milliseconds and copies nothing
half-way. It reads orders from standard input and answers on standard output, one JSON a line. Processes that a killed
child leaves behind become its own; it waits until they are gone, and tells of those that are not.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from crash import points

points.install()

import asyncio  # noqa: E402

from crash.cases import CASES, EXECUTION, SOURCE, Case, LateWriter, operate  # noqa: E402
from noetl.client.database import owned  # noqa: E402
from noetl.clock import SystemClock  # noqa: E402
from noetl.engine.commands import Resume  # noqa: E402
from noetl.engine.state import Execution  # noqa: E402
from noetl.host import children, embedded  # noqa: E402
from noetl.host.embedded import Embedded  # noqa: E402
from noetl.keychain.keychain import StoredCredential  # noqa: E402
from noetl.pipeline import run as pipeline  # noqa: E402
from noetl.runtime import committer, history  # noqa: E402
from noetl.runtime.catalog import Catalog, read  # noqa: E402
from noetl.runtime.explanations import ExplanationPart, explain, question_about  # noqa: E402
from noetl.runtime.history import Edit, RetryPoint  # noqa: E402
from noetl.runtime.loaded_playbooks import LoadedPlaybooks  # noqa: E402
from noetl.store.credentials import SealedCredential  # noqa: E402
from noetl.store.sqlite import SqliteStore  # noqa: E402
from noetl.tools.base import Context, Run  # noqa: E402
from noetl.tools.registry import KINDS  # noqa: E402
from noetl.worker import lease_run  # noqa: E402

PR_SET_CHILD_SUBREAPER = 36
CHILD_SECONDS = 75.0
"""A child that takes longer hangs: it writes where to `hang.txt` and ends."""
ORPHAN_SECONDS = 30.0


class Order(msgspec.Struct):
    """What a child is to do."""

    case: str
    folder: str
    resume: bool = False
    kill: tuple[str, int] | None = None
    """The point and the how manieth time it is come by."""


class Answer(msgspec.Struct):
    """How a child has ended: its exit code, or the negative number of the signal that killed it."""

    code: int
    hits: dict[str, int]
    left: list[int]
    """Processes that had to be killed."""
    said: str
    """What it wrote to its standard error, and where it hung."""


class Noted:
    """Tools that write down each call of theirs: what the world has seen of a run."""

    def __init__(self, file: str) -> None:
        self.file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def runner(self, name: str) -> Run | None:
        run = KINDS.runner(name)
        if run is None:
            return None

        async def noted(inputs: Any, context: Context) -> Any:
            os.write(self.file, f"{context.action} {context.attempt}\n".encode())
            return await run(inputs, context)

        return noted

    async def close(self) -> None:
        await KINDS.close()


# -- in a child -----------------------------------------------------------------------------------------------------


def be_child(order: Order) -> None:
    case = CASES[order.case]
    make_small()
    store = SqliteStore("noetl.db")
    store.credentials.put(SealedCredential("api", "bearer", b"", 0.0, 0.0))
    watched: Any = points.Watched(store)
    points.METER.arm(order.kill)
    asyncio.run(_carry(case, LateWriter(watched) if case.late else watched, order.resume))
    Path("hits.json").write_bytes(msgspec.json.encode(points.METER.counts))


def make_small() -> None:
    """What takes long or is large in the world must fit into tens of milliseconds here."""
    embedded.FOREIGN_CHANGES_SECONDS = 0.01
    children.MAX_DEPTH = 3
    committer.SNAPSHOT_EVENTS = 12
    pipeline.DURABLE_WAIT_SECONDS = 0.05
    lease_run.FAST_LANE_SECONDS = 0.02


async def _carry(case: Case, store: Any, resume: bool) -> None:
    """What `noetl run` and `noetl runs resume` do, with a fixed id and notes of what is called."""
    playbooks = LoadedPlaybooks(store)
    catalog = Catalog(playbooks)
    registry: Any = Noted("effects.txt")
    engine = Embedded(playbooks, registry, SystemClock(), catalog.find, open_credential=_credential)
    try:
        with owned(store, EXECUTION):
            if resume and store.seq(EXECUTION):
                await _taken_over(engine)
            elif case.history is not None:
                await _fork_it(engine, catalog, case)
            else:
                digest = catalog.add(read(str(case.file)))
                await engine.start(EXECUTION, digest, {}, {})
            await _to_the_end(engine)
            if case.history is not None:
                await _look_back(engine)
    finally:
        await engine.close()


def _credential(name: str) -> StoredCredential:
    return StoredCredential(name, "bearer", {"token": "a token of these tests"})


async def _fork_it(engine: Embedded, catalog: Catalog, case: Case) -> None:
    """Run it under another id, or carry that on, and then do what `noetl runs fork` and `noetl runs retry` do."""
    runtime = engine.runtime
    if runtime.store.seq(SOURCE):
        await engine.adopt(SOURCE)
    else:
        await engine.start(SOURCE, catalog.add(read(str(case.file))), {}, {})
    await engine.drive(SOURCE)
    if isinstance(case.history, RetryPoint):
        await history.retry(runtime, SOURCE, EXECUTION, Edit(), case.history)
    else:
        await history.fork(runtime, SOURCE, EXECUTION, 6, Edit())


async def _look_back(engine: Embedded) -> None:
    """Why it went so, and how it stood: before, at and behind its snapshot."""
    await engine.runtime.past.do(lambda past: explain(past, EXECUTION, question_about("start"), ExplanationPart()))
    snapshot = engine.runtime.store.snapshot(EXECUTION)
    assert snapshot is not None
    for seq in (1, snapshot.seq, snapshot.seq + 1):
        await engine.runtime.past.do(lambda past, seq=seq: past.state_at(EXECUTION, seq))  # type: ignore[misc]
    state = (await history.replay(engine.runtime, EXECUTION)).state
    await history.replay_with(engine.runtime, EXECUTION, state.digest)


async def _taken_over(engine: Embedded) -> None:
    state = await engine.adopt(EXECUTION)
    if state.status == "paused":
        await engine.runtime.committer.handle(EXECUTION, Resume())


async def _to_the_end(engine: Embedded) -> Execution:
    while True:
        state = await engine.drive(EXECUTION)
        if state.over:
            return state
        await asyncio.sleep(embedded.FOREIGN_CHANGES_SECONDS)
        await engine.refresh(EXECUTION)


# -- around it ------------------------------------------------------------------------------------------------------


def obey(order: Order) -> Answer:
    """Fork a child, and an operator beside it where the case has one; come back when no process is left."""
    operator = forked(order, lambda: operate(CASES[order.case]), "operator") if CASES[order.case].operator else None
    child = forked(order, lambda: be_child(order), "child")
    _, status = os.waitpid(child, 0)
    if operator is not None:
        os.kill(operator, signal.SIGKILL)
        os.waitpid(operator, 0)
    left = alone()
    folder = Path(order.folder)
    hits = folder / "hits.json"
    counts = msgspec.json.decode(hits.read_bytes(), type=dict[str, int]) if hits.exists() else {}
    hits.unlink(missing_ok=True)
    said = "".join(file.read_text() for file in (folder / "child.txt", folder / "operator.txt") if file.exists())
    return Answer(os.waitstatus_to_exitcode(status), counts, left, said)


def forked(order: Order, action: Any, name: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.chdir(order.folder)
        said = open(f"{name}.txt", "w")  # noqa: SIM115
        nothing = os.open(os.devnull, os.O_RDWR)
        for theirs, ours in ((nothing, 0), (nothing, 1), (said.fileno(), 2)):
            os.dup2(theirs, ours)
        faulthandler.dump_traceback_later(CHILD_SECONDS, exit=True, file=said)
        action()
        code = 0
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        sys.stderr.flush()
        os._exit(code)


def alone() -> list[int]:
    """Wait until no process is left below this one. Those that stay are killed and named."""
    until = time.monotonic() + ORPHAN_SECONDS
    while time.monotonic() < until:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.001)
        except ChildProcessError:
            return []
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        left = [int(pid) for pid in file.read().split()]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return left


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    for case in CASES.values():
        read(str(case.file)).loaded.require()
    for kind in ("noop", "python", "playbook", "wait", "http"):
        KINDS.runner(kind)
    import noetl.tools.python_child.pool  # noqa: F401

    gc.collect()
    gc.freeze()
    for line in sys.stdin.buffer:
        answer = obey(msgspec.json.decode(line, type=Order))
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
