"""Reads playbooks from files, for the front end, which does no I/O."""

from __future__ import annotations

import os
import sys

from msgspec.structs import replace

from noetl.cpu_limit import CpuTimeExceeded, cpu_limit
from noetl.dsl.compile import CPU_SECONDS, Loaded, load, too_expensive
from noetl.dsl.problem import Problem
from noetl.dsl.reader import MAX_BYTES
from noetl.errors import FileMissing, PlaybookInvalid
from noetl.garbage import collector_paused
from noetl.model.playbook import Playbook
from noetl.tools.registry import KINDS

STDIN = "-"


def read_file(name: str) -> bytes:
    """The bytes of a file, up to one more than the maximum of a playbook; FileMissing if it cannot be read."""
    try:
        if name == STDIN:
            if sys.stdin is None:
                raise FileMissing("cannot read standard input: it is closed")
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        with open(name, "rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise FileMissing(f"no such file: {name}") from None
    except OSError as error:
        raise FileMissing(f"cannot read {name}: {error.strerror or error}") from None


def read_playbook(name: str) -> bytes:
    """The text of a playbook, with the programs in the files that it names. FileMissing if it cannot be read,
    PlaybookInvalid if one of the programs cannot."""
    text, problems = _with_programs(name, read_file(name))
    if problems:
        raise PlaybookInvalid(problems)
    return text


def _with_programs(name: str, text: bytes) -> tuple[bytes, list[Problem]]:
    if b"file" not in text or b"python" not in text:
        return text, []
    from noetl.program_files import with_programs

    return with_programs(display_name(name), text, "" if name == STDIN else os.path.dirname(name))


def display_name(name: str) -> str:
    """The name of a file for messages: it may be any bytes."""
    return "<stdin>" if name == STDIN else name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def load_file(name: str, *, strict: bool = False) -> Loaded:
    """Read, check and compile a file; `-` is standard input."""
    return load_text(name, strict=strict)[1]


def load_text(name: str, *, strict: bool = False) -> tuple[bytes, Loaded]:
    """The text of a file with its programs, and the compiled playbook."""
    own = read_file(name)
    text, unreadable = _with_programs(name, own)
    loaded = _compiled(display_name(name), text, strict)
    if unreadable:
        problems = sorted([*loaded.problems, *unreadable], key=lambda problem: (problem.line, problem.column))
        loaded = Loaded(None, problems, loaded.dialect, {})
    if text is not own:  # problems show the lines of the file
        lines = own.decode("utf-8", "replace").split("\n")
        problems = [replace(problem, source=lines[problem.line - 1][:500]) for problem in loaded.problems]
        loaded = loaded._replace(problems=problems)
    return text, loaded


def _compiled(file: str, text: bytes, strict: bool) -> Loaded:
    try:
        with cpu_limit(CPU_SECONDS), collector_paused():  # as on a server
            return load(file, text, KINDS, strict=strict)
    except CpuTimeExceeded:
        return too_expensive(file, text, f"takes more than {CPU_SECONDS:g} s of CPU time to compile")


def load_playbook(path: str | os.PathLike[str]) -> Playbook:
    """The playbook in a file. PlaybookInvalid carries every problem; FileMissing if there is no such file."""
    return load_file(os.fspath(path)).require()
