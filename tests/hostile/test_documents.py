"""No document takes more work than its size allows, and one that does is refused with its place and a remedy."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from time import process_time, thread_time
from typing import NamedTuple

import pytest
from tests.hostile.documents import DOCUMENTS, Size
from tests.table import for_each

from noetl import files
from noetl.assist import assist
from noetl.cpu_limit import CpuTimeExceeded, cpu_limit
from noetl.dsl import problem
from noetl.dsl.compile import CPU_SECONDS, load
from noetl.dsl.problem import MAX_PROBLEMS
from noetl.server.compile_process import AssistRequest, CompileRequest, Request, _messages
from noetl.tools.registry import KINDS

SMALL, LARGE = Size(1 / 256), Size(1 / 128)
GROWTH = 2.6  # of the work, for twice the size
FREE_CALLS = 4_000  # of texts that are cheap whatever they are
TICK_SECONDS = 0.2  # resolution of the CPU timer of the kernel
PARTS = frozenset(["graph", "names", "form"])


def calls(text: str) -> int:
    """Calls of functions while a text is judged, and while the middle of it is typed."""
    count = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(profile)
    try:
        loaded = load("a.yaml", text, KINDS)
        assist(text, text.count("\n") // 2 + 1, 1, KINDS)
    finally:
        sys.setprofile(None)
    assert (loaded.playbook is None) == any(fault.severity == "error" for fault in loaded.problems)
    assert len(loaded.problems) <= 2 * MAX_PROBLEMS
    return count


@for_each("name", DOCUMENTS)
def test_the_work_for_a_document_grows_with_its_size(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(problem, "MAX_GUESSES", 0)  # a bounded part of the work, which grows with the square until then
    small, large = calls(DOCUMENTS[name](SMALL)), calls(DOCUMENTS[name](LARGE))
    assert large <= max(small * GROWTH, FREE_CALLS), f"{small:,} calls for {SMALL.bytes:,} bytes, {large:,} for twice"


# -- a mebibyte of each ---------------------------------------------------------------------------------------------


class Use(NamedTuple):
    """The resources of a process for a request, and how it ended."""

    cpu_seconds: float
    megabytes: int
    ending: str


def requests(text: bytes) -> Iterator[tuple[str, Request]]:
    yield "register", CompileRequest("a.yaml", text, False, CPU_SECONDS, True, False, frozenset())
    yield "validate", CompileRequest("a.yaml", text, False, CPU_SECONDS, False, False, PARTS)
    middle = text.count(b"\n") // 2 + 1
    yield "assist", AssistRequest(text, middle, 3, CPU_SECONDS)


def served(request: Request) -> Use:
    """Serve a request as a compile process does: the kernel ends it when its budget is used."""
    child = os.fork()
    if not child:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, request.seconds)
        try:
            for _ in _messages(request):
                pass
            os._exit(0)
        finally:
            os._exit(1)
    _, status, usage = os.wait4(child, 0)
    code = os.waitstatus_to_exitcode(status)
    ending = {0: "judged", -signal.SIGPROF: "too expensive"}.get(code, f"crashed ({code})")
    return Use(usage.ru_utime + usage.ru_stime, usage.ru_maxrss >> 10, ending)


@pytest.mark.slow(part="fuzz")
def test_a_mebibyte_of_anything_takes_two_seconds_of_cpu(capsys: pytest.CaptureFixture[str]) -> None:
    uses = {
        (name, verb): served(request)
        for name, document in DOCUMENTS.items()
        for verb, request in requests(document(Size()).encode())
    }
    with capsys.disabled():
        print()
        for (name, verb), use in sorted(uses.items(), key=lambda pair: -pair[1].cpu_seconds)[:20]:
            print(f"{use.cpu_seconds:6.2f} s of CPU {use.megabytes:4} MB  {verb:8} {name}: {use.ending}")
        refused = sum(use.ending == "too expensive" for use in uses.values())
        print(f"{len(uses)} requests of {len(DOCUMENTS)} documents, {refused} too expensive")
    assert [key for key, use in uses.items() if use.ending not in ("judged", "too expensive")] == []
    assert [key for key, use in uses.items() if use.cpu_seconds > CPU_SECONDS + TICK_SECONDS] == []


# -- the limit itself -----------------------------------------------------------------------------------------------


def test_the_limit_ends_a_computation_that_handles_every_exception() -> None:
    handled = 0
    with pytest.raises(CpuTimeExceeded), cpu_limit(0.05):  # noqa: PT012
        while True:
            try:
                sum(range(100))
            except Exception:
                handled += 1
    assert handled == 0
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_the_limit_does_not_count_the_work_of_other_threads() -> None:
    def work() -> None:
        while thread_time() < 0.3:
            pass

    other = Thread(target=work)
    with cpu_limit(0.05):
        other.start()
        other.join()


def test_a_profiler_keeps_its_signal_and_its_timer() -> None:
    samples: list[int] = []
    signal.signal(signal.SIGPROF, lambda number, frame: samples.append(number))
    signal.setitimer(signal.ITIMER_PROF, 0.01, 0.01)
    try:
        with cpu_limit(0.05):
            until = process_time() + 0.3
            while process_time() < until:
                pass
        assert len(samples) > 2
        assert signal.getitimer(signal.ITIMER_PROF)[1] == pytest.approx(0.01, abs=0.01)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)


def test_a_limit_inside_of_another_does_not_end_it() -> None:
    with pytest.raises(CpuTimeExceeded), cpu_limit(0.05):  # noqa: PT012
        with cpu_limit(0.01):
            pass
        until = process_time() + 60
        while process_time() < until:
            pass


def test_a_command_collects_no_garbage_while_it_compiles(tmp_path: Path) -> None:
    file, collected = tmp_path / "chain.yaml", []
    file.write_text(DOCUMENTS["a chain"](LARGE))

    def collecting(phase: str, info: object) -> None:
        collected.append(phase)

    gc.callbacks.append(collecting)
    try:
        files._compiled(str(file), file.read_bytes(), strict=False)
    finally:
        gc.callbacks.remove(collecting)
    assert collected.count("start") <= 1  # afterwards
    assert gc.isenabled()


def test_a_command_refuses_a_text_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "CPU_SECONDS", 0.01)
    file = tmp_path / "chain.yaml"
    file.write_text(DOCUMENTS["a chain"](Size()))
    (fault,) = files.load_file(str(file)).problems
    assert (fault.code, fault.line, fault.column) == ("NTL010", 1, 1)
    assert "0.01 s of CPU time" in fault.message
    assert fault.hint is not None
    assert fault.hint.startswith("split it")
