"""A second terminal: the command in the background, its talk read line by line, so tests wait for what happens."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from command import SECONDS, Done, environment, noetl
from tests.servers import forked

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: story, path: tests/story}\n"
ASKS = (
    HEAD
    + """\
workflow:
  - step: ask
    tool:
      - answer: {kind: wait, signal: go}
    next: {arcs: [{step: end}]}
  - step: end
    tool:
      - done: {kind: noop, result: "{{ steps.ask.result }}"}
"""
)
"""Waits for the signal `go`, holding no worker, and ends with what it brings."""
WORKS = (
    HEAD
    + """\
workflow:
  - step: try
    tool:
      - again:
          kind: noop
          result: "{{ _attempt }}"
          spec:
            policy:
              rules:
                - {when: "{{ not ctx.stop | default(false) }}", then: {do: retry, attempts: 10000, delay: 0.05}}
                - {else: {then: {do: continue}}}
"""
)
"""Keeps a worker busy for ever."""
DELAYED = (
    HEAD
    + """\
workflow:
  - step: start
    tool: {kind: noop, result: 1}
    next: {arcs: [{step: end, spec: {delay: DELAY}}]}
  - step: end
    tool: {kind: noop, result: 2}
"""
)
"""Its token comes late."""


class Terminal:
    """The command in the background."""

    def __init__(self, process: forked.Process) -> None:
        self.process = process
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.seen: list[str] = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.put(line.decode().rstrip("\n"))
        self.lines.put(None)

    def line(self, part: str) -> str:
        """The next line on stderr that holds this."""
        while True:
            line = self.lines.get(timeout=SECONDS)
            assert line is not None, f"{part!r} never came: {self.seen}, exit code {self.process.wait(SECONDS)}"
            self.seen.append(line)
            if part in line:
                return line

    def end(self) -> Done:
        """How it ended."""
        assert self.process.stdout is not None
        out = self.process.stdout.read().decode()
        code = self.process.wait(SECONDS)
        while (line := self.lines.get(timeout=SECONDS)) is not None:
            self.seen.append(line)
        return Done(code, out, "\n".join(self.seen))

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


@contextmanager
def terminal(*args: str, cwd: Path, **env: str) -> Iterator[Terminal]:
    """Run `noetl` in the background."""
    process = forked.Process(args, cwd=cwd, env=environment(**env))
    background = Terminal(process)
    try:
        yield background
    finally:
        process.kill()
        process.wait()
        background.reader.join(SECONDS)  # a stream must not be closed while it is read
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


@contextmanager
def running(folder: Path, text: str, until: str, *args: str) -> Iterator[tuple[Terminal, str]]:
    """A playbook that runs in the background and has come so far; and its id."""
    (folder / "story.yaml").write_text(text)
    with terminal("run", "story.yaml", *args, cwd=folder) as one:
        execution = one.line("story ").split()[1]
        one.line(until)
        yield one, execution


def data(done: Done) -> Any:
    """What a command printed with `-o json`."""
    return msgspec.json.decode(done.out)


class Sound(NamedTuple):
    """What `noetl verify` says."""

    executions: int
    violations: list[Any]


def verified(folder: Path) -> Sound:
    return Sound(**data(noetl("verify", "-o", "json", cwd=folder)))
