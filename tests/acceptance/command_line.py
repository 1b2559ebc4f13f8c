"""The command in a process of its own, with pipes or on a terminal, in an environment that tells it nothing."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.servers import forked

SECONDS = 300


class Done(NamedTuple):
    code: int
    out: bytes
    err: bytes


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "noetl.cli", *args]


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Little of this process: a home and a place for temporary files in the folder, nothing of a proxy."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH", "SSL_CERT_FILE") if name in os.environ}
    return {**kept, "HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp"), "NO_PROXY": "*", **more}


def call(*args: str, cwd: Path, env: dict[str, str], stdin: bytes = b"") -> Done:
    """The command to its end."""
    done = forked.run(args, stdin=stdin, cwd=cwd, env=env, timeout=SECONDS)
    return Done(done.returncode, done.stdout, done.stderr)


def call_on_terminal(*args: str, cwd: Path, env: dict[str, str]) -> Done:
    """The command to its end, with a terminal to draw on; `out` is all that came on it."""
    ours, theirs = pty.openpty()
    drawn = bytearray()

    def read() -> None:
        with suppress(OSError):  # what a terminal says when nobody has it open any more
            while data := os.read(ours, 65536):
                drawn.extend(data)

    process = subprocess.Popen(
        command(*args), stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env={**env, "TERM": "xterm-256color"}
    )
    os.close(theirs)
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        code = process.wait(SECONDS)
        reader.join(SECONDS)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return Done(code, bytes(drawn), b"")


@contextmanager
def in_background(*args: str, cwd: Path, env: dict[str, str]) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The command while this lasts, and the file that has its output."""
    output = cwd / "background.out"
    with output.open("wb") as file:
        process = subprocess.Popen(command(*args), stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=cwd, env=env)
    try:
        yield process, output
    finally:
        process.kill()
        process.wait()
