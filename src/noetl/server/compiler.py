"""Compiles playbooks for a server: in separate processes, within a CPU budget, fairly between callers.

A text is untrusted: on the event loop it could block the server, and a thread cannot be killed. The kernel kills the
process when a text exceeds its CPU time, and this module kills it when it neither responds nor uses CPU time.
Wall-clock time does not count, because the process has a low priority and a busy machine delays it. Processes start on
demand and end after an idle timeout. Each caller has one text compiled at a time, and callers take turns.
"""

from __future__ import annotations

import asyncio
import pickle
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import BytesIO
from multiprocessing.connection import Pipe
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import msgspec

from noetl.dsl.compile import CPU_SECONDS, Loaded, too_expensive
from noetl.dsl.problem import Problem
from noetl.errors import NoetlError, PlaybookInvalid, StoreError
from noetl.garbage import collector_paused, long_lived
from noetl.runtime.loaded_playbooks import LoadedPlaybook
from noetl.server.compile_process import (
    AssistRequest,
    CompileRequest,
    CompileResponse,
    LanguagePart,
    LanguageRequest,
    Part,
    Request,
)
from noetl.server.problems import Finding, Refused
from noetl.switch_interval import short_switch_interval
from noetl.tools.process.launcher import ending, start_python

FILE = "playbook.yaml"  # file name of a text from a request, until it is compiled and has a path
TRUSTED_FACTOR = 5.0
"""Budget factor for stored texts, which compiled within the budget of the version that stored them, and for the
description of the language, which imports every installed kind."""
STALL_SECONDS = 60.0  # a process that neither responds nor uses CPU time for this long is stuck
MIN_CPU_SHARE = 0.002
"""The least CPU time of a process that is not stuck, per second. Beside a hundred busy processes, one of its priority
still gets more than ten times as much."""
LINUX_PROCESS_CLOCK = 2  # CPUCLOCK_SCHED, as in clock_getcpuclockid(3)
PROCESSES = 2
MAX_TEXTS_PER_CALLER = 16
IDLE_SECONDS = 60.0
STARTS = 3  # maximum process starts per text, if the process ends for reasons unrelated to the text

Result = TypeVar("Result")


class Compiled(NamedTuple):
    playbook: LoadedPlaybook | None
    problems: list[Problem]
    digest: str = ""
    """Of a valid playbook, like its path; also if the playbook itself was not requested."""
    path: str = ""
    parts: Mapping[Part, bytes] = {}
    """The requested parts, as JSON; null where the text has none. Empty if the CPU budget ended before them."""
    findings: bytes = b"[]"
    """The problems as JSON. They may be many, so the event loop does not encode them."""

    @property
    def valid(self) -> bool:
        return all(problem.severity != "error" for problem in self.problems)

    def require(self) -> LoadedPlaybook:
        if self.playbook is None:
            raise PlaybookInvalid(self.problems)
        return self.playbook


class TextTooExpensive(Exception):
    """A process was killed over a text; the message says why, after the word for the text."""


class PlaybookCompiler:
    def __init__(self, seconds: float = CPU_SECONDS, stall_seconds: float = STALL_SECONDS) -> None:
        self.seconds, self.stall_seconds = seconds, stall_seconds
        self.pending: Counter[str | None] = Counter()  # texts by caller; the key None is the server itself
        self.running: set[str | None] = set()
        self._turns: WeakValueDictionary[str | None, asyncio.Lock] = WeakValueDictionary()
        self._slots = asyncio.Semaphore(PROCESSES)
        self._threads = ThreadPoolExecutor(PROCESSES, "noetl-compile")
        self._idle: list[_Process] = []
        self._processes: set[_Process] = set()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closed = False

    def stop(self) -> None:
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        for process in list(self._processes):
            process.kill()

    def close(self) -> None:
        self.stop()
        self._threads.shutdown()
        self._end_idle()

    async def compile(
        self,
        caller: str | None,
        text: bytes,
        file: str = FILE,
        *,
        strict: bool = False,
        whole: bool = True,
        stored: bool = False,
        parts: Collection[Part] = (),
    ) -> Compiled:
        """Compile a text of a caller, or a stored one for the server itself. With `whole=False` the result has no
        playbook, only problems and `parts`; these are empty if the text alone takes the budget. Refused if the caller
        has too many pending texts."""
        seconds = self.seconds * (TRUSTED_FACTOR if stored or caller is None else 1)
        request = CompileRequest(file, text, strict, seconds, whole, stored, frozenset(parts))
        try:
            return await self._run(caller, request, lambda fields, parts={}: _compiled(file, fields, parts))
        except TextTooExpensive as error:
            problems = too_expensive(file, text, str(error)).problems
            return Compiled(None, problems, findings=_encoded(problems))

    async def assist(self, caller: str, text: bytes, line: int, column: int) -> bytes:
        """Completions and hover at a position of a caller's text, as JSON. Refused like `compile`."""
        try:
            return await self._run(caller, AssistRequest(text, line, column, self.seconds), bytes)
        except TextTooExpensive as error:
            raise Refused(422, f"the text {error}") from None

    async def describe(self, caller: str, part: LanguagePart) -> bytes:
        """A part of the description of the language with the installed kinds, as JSON. Refused like `compile`."""
        try:
            return await self._run(caller, LanguageRequest(part, self.seconds * TRUSTED_FACTOR), bytes)
        except TextTooExpensive as error:
            raise NoetlError(f"the description of the language {error}") from None

    async def _run(self, caller: str | None, request: Request, result_of: Callable[..., Result]) -> Result:
        """The result of the messages of a process, made in a thread, when it is the caller's turn."""
        pending = self.pending[caller]
        if caller is not None and pending >= MAX_TEXTS_PER_CALLER:
            detail = f"this caller has {pending} pending compilations, the maximum; wait for one of them to finish"
            raise Refused(429, detail, headers={"Retry-After": "1"})
        self.pending[caller] += 1
        try:
            async with self._turns.setdefault(caller, asyncio.Lock()), self._slots:
                if self._closed:
                    raise _stopping()
                loop = asyncio.get_running_loop()
                work = loop.run_in_executor(self._threads, lambda: result_of(*self._messages(request)))
                self.running.add(caller)
                try:
                    return await asyncio.shield(work)
                finally:
                    await asyncio.wait((work,))  # also if it was cancelled: the process is busy until then
                    work.exception()
                    self.running.discard(caller)
                    if self._idle_timer is not None:
                        self._idle_timer.cancel()
                    if not self._closed:
                        self._idle_timer = loop.call_later(IDLE_SECONDS, self._threads.submit, self._end_idle)
        finally:
            self.pending -= Counter([caller])

    def _messages(self, request: Request) -> list[Any]:
        """The messages of a process; TextTooExpensive if it was killed before the first."""
        for _ in range(STARTS):
            process = self._take()
            try:
                answer = process.ask(request, self.stall_seconds)
            except TimeoutError:
                process.kill()
                reason = f"made no progress for {self.stall_seconds:g} s while it was compiled"
            except BrokenPipeError:  # it ended while it was idle
                self._discard(process)
                continue
            except (EOFError, OSError):
                reason = ""
            else:
                message = _unpickled(answer)
                if isinstance(message, str):  # the error of an installed tool kind, not of the text
                    self._idle.append(process)
                    raise NoetlError(message)
                return [message, *self._parts(process, request)]
            code = self._discard(process)
            if self._closed:
                raise _stopping()
            if code == -signal.SIGPROF:
                reason = reason or f"takes more than {request.seconds:g} s of CPU time to compile"
            if reason or code:
                raise TextTooExpensive(reason or f"cannot be compiled: the process {ending(code)}")
        raise StoreError("the compile process failed repeatedly; try again")

    def _parts(self, process: _Process, request: Request) -> list[Any]:
        """The second message, if the request has one and the budget is enough for it."""
        parts = []
        if isinstance(request, CompileRequest) and request.parts:
            try:
                parts = [_unpickled(process.receive(self.stall_seconds))]
            except (EOFError, OSError):  # also a TimeoutError
                process.kill()
                self._discard(process)
                return []
        self._idle.append(process)
        return parts

    def _end_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._discard(self._idle.pop())

    def _discard(self, process: _Process) -> int:
        self._processes.discard(process)
        return process.end()

    def _take(self) -> _Process:
        with suppress(IndexError):
            return self._idle.pop()
        if self._closed:
            raise _stopping()
        try:
            process = _Process()
        except OSError as error:
            raise StoreError(f"cannot start the compile process: {error}") from None
        self._processes.add(process)
        if self._closed:  # stopped in the meantime
            process.kill()
        try:
            process.receive(STALL_SECONDS)
        except (EOFError, OSError):  # also a TimeoutError
            process.kill()
            raise StoreError(f"the compile process {ending(self._discard(process))} during startup") from None
        return process


def _unpickled(data: bytes) -> Any:
    """Unpickle without garbage collection, which visits every object of the server and blocks all threads."""
    with short_switch_interval(), collector_paused():
        return pickle.Unpickler(PickleFile(data)).load()


class PickleFile(BytesIO):
    """Unpickling reads 64 KiB at a time from it. Its methods are not written in C, so other threads can run between two
    reads, and need not wait until a large playbook is complete."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(size)

    def readinto(self, buffer: Any) -> int:
        return super().readinto(buffer)

    def readline(self, size: int | None = -1) -> bytes:
        return super().readline(size)


def _compiled(file: str, fields: tuple[Any, ...], parts: Mapping[Part, bytes]) -> Compiled:
    response = CompileResponse(*fields)
    loaded = Loaded(*response.loaded)
    with short_switch_interval():
        findings = _encoded(loaded.problems)
        if loaded.playbook is None:
            return Compiled(None, loaded.problems, response.digest, response.path, parts, findings)
        with long_lived():
            file = loaded.playbook.path if file == FILE else file
            playbook = LoadedPlaybook(loaded.playbook, file, loaded.places, loaded.inputs)
    return Compiled(playbook, loaded.problems, response.digest, response.path, parts, findings)


def _encoded(problems: Iterable[Problem]) -> bytes:
    return msgspec.json.encode([Finding.of(problem) for problem in problems])


class _Process:
    """A compile process. Only one thread uses it at a time."""

    def __init__(self) -> None:
        self._connection, child_end = Pipe()
        self._process = start_python(["-m", "noetl.server.compile_process"], self._connection, child_end)

    def receive(self, seconds: float) -> bytes:
        """The next message. TimeoutError if the process uses no CPU time for this many seconds; EOFError or OSError if
        it has ended."""
        used = self._cpu_seconds()
        while not self._connection.poll(seconds):
            before, used = used, self._cpu_seconds()
            if used - before < seconds * MIN_CPU_SHARE:
                raise TimeoutError
        return self._connection.recv_bytes()

    def _cpu_seconds(self) -> float:
        """The CPU time that the process has used; 0 if the system does not report it."""
        try:
            return time.clock_gettime(~self._process.pid << 3 | LINUX_PROCESS_CLOCK)
        except OSError:
            return 0.0

    def ask(self, request: Request, seconds: float) -> bytes:
        message = (type(request).__name__, tuple(request))
        self._connection.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))
        return self.receive(seconds)

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> int:
        """Wait until an idle or dying process has ended; returns its exit code, or the negative signal number."""
        self._connection.close()
        try:
            return self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def _stopping() -> StoreError:
    return StoreError("the server is shutting down")
