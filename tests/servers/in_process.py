"""`noetl` in this process, to its end: it parses, prints and exits as `python -m noetl.cli` does.

That takes a fifth of the CPU time of a fork. Use it where the process is not the point: `forked.py` has what is killed,
limited, watched by another process, or drawn on a terminal. A verb that serves, and a command of another thread than
the main one, are forks here too, because they handle signals.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.servers import forked
from tests.verifying import verified

SERVING = frozenset(["dev", "server", "worker"])


def run(
    args: Sequence[str | bytes],
    *,
    stdin: bytes = b"",
    timeout: float,
    cwd: Path | str | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Call the command; `subprocess.TimeoutExpired` after `timeout` seconds."""
    words = [os.fsdecode(word) for word in args]
    if SERVING.intersection(words[:1]) or threading.current_thread() is not threading.main_thread():
        return forked.run(args, stdin=stdin, timeout=timeout, cwd=cwd, env=env)
    out, err = io.BytesIO(), io.BytesIO()
    environment = dict(os.environ if env is None else env)
    with _process(words, stdin, out, err, cwd, environment), _deadline(words, timeout):
        code = _exit_code()
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def _exit_code() -> int:
    from noetl.cli.main import main

    try:
        main()
    except SystemExit as ending:
        if ending.code is None or isinstance(ending.code, int):
            return (ending.code or 0) & 0xFF
        print(ending.code, file=sys.stderr)
        return 1
    except subprocess.TimeoutExpired:
        raise
    except Exception:  # as the interpreter does
        traceback.print_exc()
        return 1
    return 0


@contextmanager
def _process(
    words: list[str], stdin: bytes, out: io.BytesIO, err: io.BytesIO, cwd: Path | str | None, env: dict[str, str]
) -> Iterator[None]:
    """What a process has of its own: its arguments, streams, folder, environment, signal handlers and imports."""
    folder, zone, handlers = os.getcwd(), os.environ.get("TZ"), _signal_handlers()
    modules, path = set(sys.modules), [os.fspath(cwd or folder), *sys.path]
    streams: dict[str, Any] = {
        "stdin": io.TextIOWrapper(io.BytesIO(stdin), "utf-8"),
        "stdout": io.TextIOWrapper(out, "utf-8", write_through=True),
        "stderr": io.TextIOWrapper(err, "utf-8", "backslashreplace", write_through=True),
    }
    os.chdir(cwd or folder)
    try:
        with (
            patch.dict(os.environ, env, clear=True),
            patch.multiple(sys, argv=["noetl", *words], path=path, **streams),
            patch("gc.freeze"),  # the garbage of other tests would stay for ever
            verified(damaged=True),  # its database is verified when the test ends
        ):
            _set_zone(zone)
            yield
    finally:
        for stream in streams.values():
            stream.detach()  # or else it closes what was written
        _set_zone(env.get("TZ"))
        os.chdir(folder)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for name in set(sys.modules) - modules:
            if cwd and (getattr(sys.modules[name], "__file__", None) or "").startswith(f"{cwd}{os.sep}"):
                del sys.modules[name]


def _signal_handlers() -> dict[int, Any]:
    return {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}


def _set_zone(before: str | None) -> None:
    if os.environ.get("TZ") != before:
        time.tzset()


@contextmanager
def _deadline(words: list[str], seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise subprocess.TimeoutExpired(words, seconds)

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
