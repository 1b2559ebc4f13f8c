"""Compiling never silences a server: it has processes of its own, a budget, and turns between callers.

The texts that take for ever use tool kinds of a plug-in that only the compiling processes find.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from api_server import HELLO, SECONDS, WAITS, YAML, ApiServer, begun, register, started, until
from msgspec.structs import replace
from tests.conformance.memory import MemoryStore

from noetl import garbage
from noetl.dsl import compile as dsl_compile
from noetl.dsl.compile import load
from noetl.dsl.problem import Problem
from noetl.engine.net import Net, StepPlan
from noetl.garbage import collector_paused, long_lived
from noetl.runtime.loaded_playbooks import LoadedPlaybook
from noetl.server import compile_process
from noetl.server import compiler as compiler_module
from noetl.server import playbooks as playbooks_module
from noetl.server.compiler import (
    MAX_TEXTS_PER_CALLER,
    PROCESSES,
    STALL_SECONDS,
    PickleFile,
    PlaybookCompiler,
    _unpickled,
)
from noetl.server.playbooks import Playbooks
from noetl.server.problems import Finding
from noetl.switch_interval import SWITCH_SECONDS, short_switch_interval
from noetl.tools.registry import KINDS
from noetl.worker.playbook_cache import MAX_PLAYBOOKS, PlaybookCache

HOME = Path(__file__).parents[3]
VALIDATE = "/api/v1/playbooks/validate"
BUSY = HELLO.replace("tests/hello", "tests/busy").replace("kind: noop", "kind: never_compiled")
"""Uses the CPU for ever."""
STUCK = HELLO.replace("tests/hello", "tests/stuck").replace("kind: noop", "kind: never_answered")
"""Waits for ever."""
PLAYBOOK = load("playbook.yaml", HELLO, KINDS).require()
CHILD = HELLO.replace("tests/hello", "tests/child")
PARENT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: parent, path: tests/parent}
workflow:
  - step: start
    tool: {kind: playbook, path: tests/child, args: {name: moon}}
"""
FAILS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: fails, path: tests/fails}
workflow:
  - step: start
    tool: {kind: noop, result: "{{ 1 // 0 }}"}
"""


@pytest.fixture(autouse=True)
def _plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installs two tool kinds for processes that begin from now on."""
    info = tmp_path / "slow-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: slow\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[noetl.tools]\nnever_compiled = busy\nnever_answered = stuck\n")
    (tmp_path / "busy.py").write_text("while True:\n    pass\n")
    (tmp_path / "stuck.py").write_text("import time\ntime.sleep(3600)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ApiServer]]:
    """Starts servers whose compiler has a budget, also for what their loops compile at once."""
    servers: list[ApiServer] = []

    def serve(seconds: float = 10 * SECONDS, store: MemoryStore | None = None) -> ApiServer:
        monkeypatch.setattr(PlaybookCompiler.__init__, "__defaults__", (seconds, STALL_SECONDS))
        server = ApiServer(store, own_processes=True)
        assert compiler_of(server).seconds == seconds
        servers.append(server)
        return server

    yield serve
    for server in servers:
        server.close()


def playbooks_of(server: ApiServer) -> Playbooks:
    playbooks: Playbooks = server.app.api.playbooks
    return playbooks


def compiler_of(server: ApiServer) -> PlaybookCompiler:
    return playbooks_of(server).compiler


def validated(client: httpx2.Client, text: str) -> httpx2.Response:
    return client.post(VALIDATE, content=text.encode(), headers=YAML)


def wait_for(fact: Callable[[], Any]) -> None:
    end = time.monotonic() + SECONDS
    while not fact():
        assert time.monotonic() < end
        time.sleep(0.01)


def stop(server: ApiServer) -> None:
    """Send away who waits, as a server does before it ends."""
    server.loop.call_soon_threadsafe(server.app.api.stop)


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# -- where ----------------------------------------------------------------------------------------------------------


def test_no_entrance_compiles_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: dict[str, set[threading.Thread]] = {"load": set(), "net": set()}
    read, init = dsl_compile.read, Net.__init__

    def reading(*given: Any) -> Any:
        threads["load"].add(threading.current_thread())
        return read(*given)

    def building(self: Net, *given: Any) -> None:
        threads["net"].add(threading.current_thread())
        init(self, *given)

    monkeypatch.setattr(dsl_compile, "read", reading)
    monkeypatch.setattr(Net, "__init__", building)
    store = MemoryStore()
    loops = []

    @contextmanager
    def restarted() -> Iterator[httpx2.Client]:
        """A server that has nothing in memory."""
        server = ApiServer(store, own_processes=True)
        loops.append(server._thread)
        with server.client() as client:
            yield client
        server.close()

    with restarted() as client:
        assert validated(client, HELLO).json()["valid"]
        hello = register(client)
        register(client, CHILD)
        register(client, PARENT)
        failed = started(client, {"playbook": FAILS})["execution_id"]
        waiting = begun(client, {"playbook": WAITS})
        until(client, waiting, "waiting")  # else its lease outlives the server
    with restarted() as client:
        assert client.get(f"/api/v1/executions/{waiting}").json()["status"] == "waiting"
    with restarted() as client:
        assert client.post(f"/api/v1/executions/{waiting}/signals", json={"name": "go"}).status_code == 202
        until(client, waiting, "succeeded")
    with restarted() as client:
        assert started(client, {"path": "tests/hello"})["result"] == "hello world!"
    with restarted() as client:
        assert started(client, {"playbook_id": hello["playbook_id"]})["result"] == "hello world!"
    with restarted() as client:
        assert started(client, {"playbook": HELLO})["result"] == "hello world!"
    with restarted() as client:
        assert started(client, {"path": "tests/parent"})["result"] == "hello moon!"
    with restarted() as client:
        assert client.get(f"/api/v1/executions/{failed}/explain", params={"step": "start"}).status_code == 200
    with restarted() as client:
        assert client.get(f"/api/v1/executions/{failed}/state", params={"at": 1}).status_code == 200
    with restarted() as client:
        edited = client.post(f"/api/v1/executions/{failed}/retry", json={"playbook": FAILS.replace("// 0", "// 1")})
        assert edited.status_code == 202, edited.text
        until(client, edited.json()["execution_id"], "succeeded")
    with restarted() as client:
        assert client.get("/api/v1/verify").status_code == 200
    assert len(loops) == 11
    assert threads["net"]
    assert not threads["load"] & set(loops)
    assert not threads["net"] & set(loops)


@pytest.mark.parametrize(
    "file", sorted([*HOME.glob("examples/*.yaml"), *HOME.glob("tests/kinds/*.yaml")]), ids=lambda one: one.name
)
def test_a_compiled_text_crosses_the_border_unchanged(file: Path) -> None:
    compiled = load("playbook.yaml", file.read_bytes(), KINDS)
    again = pickle.loads(pickle.dumps(compiled, pickle.HIGHEST_PROTOCOL))
    assert again == compiled
    assert again.require().digest == compiled.require().digest


def test_the_process_has_none_of_the_servers_secrets(
    serving: Callable[..., ApiServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_MASTER_KEY", "s3cret")
    server = serving()
    with server.client() as client:
        assert validated(client, HELLO).json()["valid"]
    (process,) = compiler_of(server)._processes
    assert b"NOETL_" not in Path(f"/proc/{process._process.pid}/environ").read_bytes()


# -- the budget -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "why"), [(BUSY, "0.2 s of CPU time"), (STUCK, "no progress for 2 s")])
def test_a_text_that_is_too_expensive_is_a_problem_and_the_next_one_is_compiled(
    serving: Callable[..., ApiServer], text: str, why: str
) -> None:
    server = serving(0.2)
    compiler_of(server).stall_seconds = 2.0 if text is STUCK else SECONDS
    with server.client() as client:
        answer = validated(client, text).json()
        (problem,) = answer["problems"]
        assert (answer["valid"], problem["code"], problem["line"]) == (False, "NTL010", 1)
        assert why in problem["message"]
        assert "split it" in problem["hint"]
        refused = client.post("/api/v1/playbooks", content=text.encode(), headers=YAML)
        assert (refused.status_code, refused.json()["problems"][0]["code"]) == (422, "NTL010")
        refused = client.post("/api/v1/executions", json={"playbook": text})
        assert (refused.status_code, refused.json()["problems"][0]["code"]) == (422, "NTL010")
        assert validated(client, HELLO).json() == {"valid": True, "problems": [], "next_version": 1}


def test_a_process_that_uses_the_cpu_is_not_stuck_however_long_it_takes(serving: Callable[..., ApiServer]) -> None:
    """On a busy machine, seconds of CPU time take minutes."""
    server = serving(1.5)
    compiler_of(server).stall_seconds = 0.5
    with server.client() as client:
        (problem,) = validated(client, BUSY).json()["problems"]
    assert "1.5 s of CPU time" in problem["message"]


def test_a_text_that_kills_its_process_is_a_problem(serving: Callable[..., ApiServer]) -> None:
    server = serving()
    compiler = compiler_of(server)
    with server.client() as client, ThreadPoolExecutor(1) as pool:
        assert validated(client, HELLO).json()["valid"]
        (process,) = compiler._processes
        before = cpu_seconds(process._process.pid)
        answer = pool.submit(validated, client, BUSY)
        wait_for(lambda: cpu_seconds(process._process.pid) > before + 0.1)
        process.kill()
        (problem,) = answer.result(SECONDS).json()["problems"]
        assert (problem["code"], "SIGKILL" in problem["message"]) == ("NTL010", True)


def test_while_a_text_is_compiled_the_server_answers_everybody_else(serving: Callable[..., ApiServer]) -> None:
    server = serving()
    with server.client("viewer") as viewer, server.client("author") as author, ThreadPoolExecutor(1) as pool:
        stalled = pool.submit(validated, viewer, BUSY)
        wait_for(lambda: compiler_of(server).running)
        assert author.get("/livez").status_code == 200
        assert register(author)["version"] == 1
        assert started(author, {"playbook": CHILD})["status"] == "succeeded"
        assert not stalled.done()
        stop(server)
        assert stalled.result(SECONDS).status_code == 503


def test_an_execution_whose_stored_playbook_is_too_expensive_is_refused_and_others_continue(
    serving: Callable[..., ApiServer],
) -> None:
    store = MemoryStore()
    with serving(store=store).client() as client:
        execution = begun(client, {"playbook": WAITS})
        until(client, execution, "waiting")
        digest = store.summaries(prefix=execution)[0].digest
    store.playbooks[digest] = (store.playbooks[digest][0], BUSY.encode())
    server = serving(0.2, store)
    with server.client() as client:
        for _ in range(3):
            answer = client.get(f"/api/v1/executions/{execution}")
            assert (answer.status_code, "1 s of CPU time" in answer.json()["detail"]) == (409, True), answer.text
        assert client.get("/livez").status_code == 200
        assert started(client, {"playbook": HELLO})["status"] == "succeeded"


# -- callers --------------------------------------------------------------------------------------------------------


def test_a_caller_with_too_many_texts_is_refused_and_delays_nobody(serving: Callable[..., ApiServer]) -> None:
    server = serving()
    count = MAX_TEXTS_PER_CALLER + 5
    limits = httpx2.Limits(max_connections=count)
    with (
        server.client("viewer", limits=limits) as viewer,
        server.client("author") as author,
        ThreadPoolExecutor(count) as pool,
    ):
        asked = [pool.submit(validated, viewer, BUSY) for _ in range(count)]
        wait_for(lambda: sum(one.done() for one in asked) == 5)
        refused = [one.result() for one in asked if one.done()]
        assert {response.status_code for response in refused} == {429}
        assert all(one.headers["retry-after"] for one in refused)
        assert len(compiler_of(server).running) == 1
        assert register(author)["version"] == 1
        stop(server)
        assert {one.result(SECONDS).status_code for one in asked} == {429, 503}


def test_callers_take_turns() -> None:
    order: list[str] = []

    async def one(compiler: PlaybookCompiler, caller: str, text: str) -> None:
        await compiler.compile(caller, text.encode(), whole=False)
        order.append(caller)

    async def story() -> None:
        compiler = PlaybookCompiler(0.2)
        asked = [(f"busy {caller}", BUSY) for caller in range(PROCESSES) for _ in range(3)]
        await asyncio.gather(*(one(compiler, caller, text) for caller, text in [*asked, ("good", HELLO)]))
        compiler.close()

    asyncio.run(story())
    assert len(order) == 3 * PROCESSES + 1
    assert order.index("good") <= 2 * PROCESSES


def test_a_text_that_many_start_at_once_is_compiled_once(serving: Callable[..., ApiServer]) -> None:
    server = serving()
    compiler, asked = compiler_of(server), []
    compiled = compiler.compile

    async def counting(caller: str, text: bytes) -> Any:
        asked.append(text)
        return await compiled(caller, text)

    compiler.compile = counting  # type: ignore[method-assign]
    with server.client() as client, ThreadPoolExecutor(3 * MAX_TEXTS_PER_CALLER) as pool:
        runs = [pool.submit(started, client, {"playbook": HELLO}) for _ in range(3 * MAX_TEXTS_PER_CALLER)]
        assert {run.result(SECONDS)["status"] for run in runs} == {"succeeded"}
    assert len(asked) == 1


# -- memory ---------------------------------------------------------------------------------------------------------


def test_an_idle_process_ends(serving: Callable[..., ApiServer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler_module, "IDLE_SECONDS", 0.05)
    server = serving()
    with server.client() as client:
        for _ in range(2):
            assert validated(client, HELLO).json()["valid"]
            wait_for(lambda: not compiler_of(server)._processes)


def test_a_process_that_has_compiled_much_is_replaced() -> None:
    text = HELLO.encode() + b"# " + b"x" * 900_000

    async def story() -> None:
        compiler = PlaybookCompiler()
        processes = set()
        for _ in range(compile_process.MAX_BYTES // len(text) + 3):
            assert (await compiler.compile("anybody", text, whole=False)).valid
            processes |= {process._process.pid for process in compiler._processes}
        compiler.close()
        assert len(processes) == 2

    asyncio.run(story())


def test_the_cache_is_bounded_in_number_and_size() -> None:
    cache = PlaybookCache()
    for number in range(3_000):
        cache.add(loaded(f"tests/number{number}"))
    assert len(cache) == MAX_PLAYBOOKS
    assert len(cache.in_memory) <= MAX_PLAYBOOKS + 1
    size = loaded("tests/number0").size
    small = PlaybookCache(size=10 * size)
    for number in range(100):
        small.add(loaded(f"tests/number{number}"))
    assert 1 < len(small) <= 10
    assert small.bytes <= small.max_bytes
    tiny = PlaybookCache(size=1)
    tiny.add(loaded("tests/number0"))
    assert len(tiny) == 1


def test_the_playbook_used_last_stays_and_one_in_use_is_found() -> None:
    cache = PlaybookCache(2)
    used, *others = (loaded(f"tests/number{number}") for number in range(4))
    cache.add(used)
    for one in others:
        cache.add(one)
        cache.get(used.digest)
    assert (used.digest in cache, len(cache)) == (True, 2)
    assert others[0].digest not in cache
    assert cache.get(others[0].digest) is others[0]
    digest = others[1].digest
    del one, others
    gc.collect()
    assert cache.get(digest) is None


def test_a_server_that_has_seen_many_texts_holds_few(serving: Callable[..., ApiServer]) -> None:
    server = serving()
    runtime = server.host.runtime
    runtime.playbooks.cache.max_playbooks = 5
    executions = []
    with server.client() as client:
        for number in range(40):
            ended = started(client, {"playbook": HELLO.replace("tests/hello", f"tests/n{number}")})
            executions.append(ended["execution_id"])
            executions.append(begun(client, {"playbook": WAITS.replace("tests/waits", f"tests/w{number}")}))
            until(client, executions[-1], "waiting")
        register(client)
        started(client, {"path": "tests/hello"})  # the last ones leave memory with the next batch
        gc.collect()
        assert len(runtime.playbooks.cache) == 5
        assert len(runtime.playbooks.cache.in_memory) <= 10
        assert len(runtime.executions) <= 10
        for execution in executions[1::2]:
            assert client.post(f"/api/v1/executions/{execution}/signals", json={"name": "go"}).status_code == 202
        for execution in executions:
            until(client, execution, "succeeded")


def loaded(path: str) -> LoadedPlaybook:
    return LoadedPlaybook(replace(PLAYBOOK, path=path))


def test_a_large_playbook_is_unpickled_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads can run between two pieces."""
    pieces: list[int] = []
    readinto = PickleFile.readinto

    def counted(self: PickleFile, buffer: Any) -> int:
        pieces.append(len(buffer))
        return readinto(self, buffer)

    read = PickleFile.read
    monkeypatch.setattr(PickleFile, "readinto", counted)
    monkeypatch.setattr(PickleFile, "read", lambda self, size=-1: (pieces.append(size), read(self, size))[1])
    value = [{"name": f"step{number}", "tasks": [number] * 5} for number in range(30_000)]
    assert _unpickled(pickle.dumps(value, pickle.HIGHEST_PROTOCOL)) == value
    assert max(pieces) <= 128 << 10
    assert len(pieces) > 10


def test_a_loaded_playbook_is_freed_without_the_garbage_collector() -> None:
    """`long_lived` exempts it from collections."""
    loaded = load("x.yaml", HELLO, KINDS)
    with collector_paused():
        before = _step_plans()
        playbook: LoadedPlaybook | None = LoadedPlaybook(loaded.require(), "x.yaml", loaded.places, loaded.inputs)
        assert _step_plans() > before
        playbook = None
        assert _step_plans() == before
    assert playbook is None


def _step_plans() -> int:
    return sum(isinstance(value, StepPlan) for value in gc.get_objects())


class Linked:
    """A cycle of one object."""

    def __init__(self) -> None:
        self.itself = self


def test_cycles_that_became_exempt_with_others_are_collected_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "FREEZES_PER_COLLECTION", 3)
    linked = Linked()
    reference = weakref.ref(linked)
    with long_lived():
        pass
    del linked
    for _ in range(3):
        with long_lived():
            pass
    gc.unfreeze()
    assert reference() is None


def test_the_event_loop_does_not_wait_long_for_a_thread_that_reads_a_result(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, during = sys.getswitchinterval(), []

    def of(problem: Problem) -> Finding:
        during.append(sys.getswitchinterval())
        return original(problem)

    original = Finding.of
    monkeypatch.setattr(Finding, "of", of)
    with server.client("author") as author:
        text = HELLO.replace("metadata:", "strange: 1\nmetadata:").encode()
        assert author.post(VALIDATE, content=text, headers=YAML).json()["problems"]
    assert during == [pytest.approx(SWITCH_SECONDS)]
    assert sys.getswitchinterval() == usual


def test_the_switch_interval_is_short_until_the_last_busy_thread_ends() -> None:
    usual = sys.getswitchinterval()
    with short_switch_interval():
        with short_switch_interval():
            assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
        assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
    assert sys.getswitchinterval() == usual


def test_nothing_processes_a_text_in_the_event_loop(server: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of steps or problems would block the server."""
    threads: dict[str, set[int | None]] = {}

    def recorded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            threads.setdefault(name, set()).add(threading.get_ident())
            return function(*arguments, **options)

        return call

    for module, name in ((compiler_module, "LoadedPlaybook"), (compiler_module, "_unpickled")):
        monkeypatch.setattr(module, name, recorded(name, getattr(module, name)))
    monkeypatch.setattr(playbooks_module, "obstacles", recorded("obstacles", playbooks_module.obstacles))
    monkeypatch.setattr(Finding, "of", recorded("Finding", Finding.of))
    text = HELLO.replace("tests/hello", "tests/processed").replace("metadata:", "strange: 1\nmetadata:")
    with server.client("author") as author:
        assert author.post(VALIDATE, content=text.encode(), headers=YAML).json()["problems"]
        fine = text.replace("strange: 1\n", "")
        assert author.post("/api/v1/playbooks", content=fine.encode(), headers=YAML).status_code == 201
        begun(author, {"path": "tests/processed"})
        begun(author, {"playbook": fine + "# again"})
    assert set(threads) == {"LoadedPlaybook", "_unpickled", "obstacles", "Finding"}
    assert server._thread.ident not in set().union(*threads.values())
