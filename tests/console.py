"""The commands shown in the documentation, run as they stand.

    python tests/console.py            rewrites the outputs in every page to what the commands print now

A page is followed from top to bottom in an empty folder that has a copy of `examples/`. A fenced block with a
title (` ```yaml title=hello.yaml `) writes that file. A ` ```console ` block is a session in a shell: lines that
start with `$ ` are commands, what follows each is its output, and a line `...` matches any lines.

What differs from run to run is shown as a placeholder: `<id>` for the id of a run, `<ms>` for how long something took,
`<time>` for when it was, `<hash>` for the hash of some content, `<port>` for a port of this machine, `<user>` for a
user of it. What a block leaves running in the background ends with it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "README.md",
    *sorted(page for part in ("tutorial", "howto", "explanation") for page in (ROOT / "docs" / part).glob("*.md")),
]
ANY_LINES = "..."
SECONDS = 120

_BLOCK = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r"\btitle=(\S+)")
_MARK = "--- end of a command ---"

_SHELL_SAYS = re.compile(r"^bash: line \d+: +\d+ (?:Killed|Terminated).*\n", re.MULTILINE)
"""What a shell without a terminal remarks on a job that was killed."""

PLACEHOLDERS = {
    "<id>": r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
    "<time>": r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?",
    "<hash>": r"\b[0-9a-f]{64}\b",
    "<port>": r"(?<=127\.0\.0\.1:)[1-9]\d{4}\b",
    "<user>": r"(?<=\bby local )[^\s,]+",
    "<ms>": r"\b\d+ ms\b|\b\d+\.\d s\b|(?<=duration_ms\": )[\d.]+",
}
"""What differs from run to run, and how it is recognised."""


class Shown(NamedTuple):
    """A command as a page shows it, and what it really prints."""

    line: int
    command: str
    expected: str
    actual: str

    @property
    def holds(self) -> bool:
        pattern = "".join(
            "(?:.*\n)*?" if line == ANY_LINES else re.escape(line) + "\n" for line in self.expected.splitlines()
        )
        return re.fullmatch(pattern, self.actual) is not None


def shown_commands(page: Path) -> Iterator[str]:
    """The commands of a page, which nobody runs."""
    for block in _BLOCK.finditer(page.read_text("utf-8")):
        if block["info"].strip() == "console":
            yield from (command for _, command, _ in commands(block["body"]))


def follow(page: Path, folder: Path) -> Iterator[Shown]:
    """Do what the page says, in that folder."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    text = page.read_text("utf-8")
    for block in _BLOCK.finditer(text):
        info, body = block["info"].strip(), block["body"]
        if title := _TITLE.search(info):
            file = folder / title[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(body, "utf-8")
        elif info == "console":
            yield from session(body, folder, text.count("\n", 0, block.start("body")) + 1)


def session(body: str, folder: Path, line: int) -> Iterator[Shown]:
    """Run the commands of one block in one shell, so that `echo $?` means what it says."""
    shown = list(commands(body))
    script = "trap 'kill $(jobs -p) 2> /dev/null' EXIT\n"
    script += "".join(f"{command}\n__code=$?; echo '{_MARK}'; (exit $__code)\n" for _, command, _ in shown)
    shell = subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        start_new_session=True,
    )
    try:
        outputs = shell.communicate(timeout=SECONDS)[0].split(f"{_MARK}\n")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
    for (at, command, expected), actual in zip(shown, outputs, strict=False):
        yield Shown(line + at, command, expected, steady(actual))


def steady(output: str) -> str:
    """The output without what differs from run to run, and without space at the ends of lines."""
    output = _SHELL_SAYS.sub("", output)
    for name, pattern in PLACEHOLDERS.items():
        output = re.sub(f"({pattern})( {{2,}})?", lambda found, name=name: _placed(name, found), output)
    return "".join(f"{line.rstrip()}\n" for line in output.splitlines())


def _placed(name: str, found: re.Match[str]) -> str:
    """In a column of a table, which two spaces end, the placeholder is as wide as what it stands for."""
    return f"{name.ljust(len(found[1]))}{found[2]}" if found[2] else name


def commands(body: str) -> Iterator[tuple[int, str, str]]:
    """Place, command and shown output; a command goes on where a line ends with a backslash."""
    place, command, output = 0, "", ""
    for number, line in enumerate(body.splitlines()):
        if line.startswith("$ "):
            if command:
                yield place, command, output
            place, command, output = number, line[2:], ""
        elif command.endswith("\\") and not output:
            command += f"\n{line}"
        else:
            output += f"{line.rstrip()}\n"
    if command:
        yield place, command, output


def environment(folder: Path) -> dict[str, str]:
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "COLUMNS": "100",
        "NO_COLOR": "1",
    }


def rewrite(page: Path) -> bool:
    """Put the real outputs into a page; True if that changed it."""
    with tempfile.TemporaryDirectory() as folder:
        wrong = [shown for shown in follow(page, Path(folder)) if not shown.holds]
    lines = page.read_text("utf-8").splitlines(keepends=True)
    for shown in reversed(wrong):
        start = shown.line + shown.command.count("\n")
        lines[start : start + len(shown.expected.splitlines())] = shown.actual.splitlines(keepends=True)
    page.write_text("".join(lines), "utf-8")
    return bool(wrong)


if __name__ == "__main__":
    for page in PAGES:
        if rewrite(page):
            print(f"rewrote {page.relative_to(ROOT)}")
