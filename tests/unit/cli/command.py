"""Runs the command: in this process, or in a fork of one that has imported noetl."""

from __future__ import annotations

import os
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, NamedTuple

from tests.servers import forked, in_process
from tests.servers.patience import PATIENCE_SECONDS

GOOD = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: good, path: tests/good}
workflow:
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: end, when: "{{ steps.start.status == 'ok' }}"}]}
  - step: end
    tool: {kind: noop}
"""
CLASSIC = GOOD.replace("""{arcs: [{step: end, when: "{{ steps.start.status == 'ok' }}"}]}""", "end")
WARNED = GOOD.replace("    tool: {kind: noop}\n", "").replace(", path: tests/good", "")
BAD = GOOD.replace("step: end, when", "step: ende, when").replace("kind: noop}\n    next", "kind: nop}\n    next")
SECONDS = PATIENCE_SECONDS


class Done(NamedTuple):
    """What a command said and how it ended."""

    code: int
    out: str
    err: str


def noetl(*args: str | bytes, stdin: str | bytes = "", cwd: Path | None = None, **env: str) -> Done:
    """Run `noetl` with pipes, in an environment that says nothing about terminals but what is asked for."""
    given = stdin if isinstance(stdin, bytes) else stdin.encode()
    return _done(in_process.run(args, stdin=given, timeout=SECONDS, cwd=cwd, env=environment(**env)))


def noetl_process(*args: str | bytes, cwd: Path | None = None, **env: str) -> Done:
    """The same in a process of its own."""
    return _done(forked.run(args, timeout=SECONDS, cwd=cwd, env=environment(**env)))


def _done(done: CompletedProcess[bytes]) -> Done:
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode("utf-8", "replace"))


def environment(**more: str) -> dict[str, Any]:
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return {**kept, **more}


def file(folder: Path, text: str | bytes, name: str = "playbook.yaml") -> str:
    """Write a file and give its path."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)
