"""Imports point one way. A part may import the parts on the lines above its own, never one below.

    errors, wording                     imported by all, import nothing of ours
    model, printable, timestamps, durable   text of others on a terminal, RFC 3339, writes that survive a crash
    clock, settings, log                time, the environment, lines on standard error
    classic.state                       progress of a classic step after its call: data that the engine stores
    file_access, addresses              which files a playbook may name, and which addresses
    expression                          templates
    scope, reference                    names visible to templates, values stored elsewhere
    sql, shell_text                     templates whose values are bound and never spliced
    dsl, engine                         text to playbook; commands to events. The engine asks classic steps through
                                        `engine.after_call`, whose implementation a `Net` receives as an argument
    pipeline                            the tasks of a step
    nats                                connections to NATS, hints, copies of large values
    classic                             the classic dialect: its text, its events and rules, its chains on a worker
    engine.history                      readers of the log, of both dialects (`fork` belongs to the engine)
    dsl.compile, dsl.schema             the entrances to the language: both dialects together
    generations                         documents of other generations of the language
    dsl.migrate                         text of other generations and dialects to canonical text
    tools, drawing, assist, store
    results                             large values, stored once
    keychain                            credentials: sealed, resolved for a lease, hidden in what leaves it
    access                              secrets of tokens and sessions, passwords
    triggers                            schedules and hooks, without a server
    program_files                       files of programs that playbooks name
    files                               playbooks on disk
    worker                              runs work under leases
    runtime                             the shell around the engine
    host                                claims, timers, lost leases, children: the engine in a process
    server, testing                     the server; helpers for people who test playbooks and tools
    client                              the client of the command line, on a database or a server
    cli                                 the command line

To add a part, give it a line below. If an import has to point the other way, the thing it wants lives in the wrong
part: move it, or hand it over as an argument (as `dsl` is handed the tool kinds).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "noetl"
LEVELS = [
    ["errors", "wording"],
    ["model", "printable", "timestamps", "durable", "cpu_limit", "garbage", "json_errors", "switch_interval"],
    ["clock", "latest", "settings", "log", "problem_documents", "problem_pages", "classic.state"],
    ["file_access", "addresses"],
    ["expression"],
    ["scope", "reference", "sql", "shell_text"],
    ["dsl", "engine", "engine.history.fork"],
    ["pipeline"],
    ["nats"],
    ["classic"],
    ["engine.history"],
    ["dsl.compile", "dsl.schema"],
    ["generations"],
    ["dsl.migrate"],
    ["tools", "drawing", "assist", "store"],
    ["results", "keychain"],
    ["access", "triggers"],
    ["program_files"],
    ["files"],
    ["worker"],
    ["runtime"],
    ["host"],
    ["server", "testing"],
    ["client"],
    ["cli"],
]
LEVEL = {part: level for level, parts in enumerate(LEVELS) for part in parts}

PURE = (
    "errors",
    "model",
    "expression",
    "scope",
    "sql",
    "shell_text",
    "dsl",
    "engine",
    "classic",
    "generations",
    "drawing",
    "assist",
)
"""Parts that touch neither disk nor network nor processes; `files` does that for them."""
WORLD = frozenset(["asyncio", "glob", "http", "io", "os", "pathlib", "shutil", "socket", "subprocess", "tempfile"])


class Import(NamedTuple):
    """A line that imports a module."""

    file: Path
    line: int
    module: str

    @property
    def part(self) -> str:
        return part_of(self.file)

    @property
    def imported(self) -> str:
        """The part of ours that is imported; empty for the package itself."""
        return part_named(self.module.split(".")[1:])

    def __str__(self) -> str:
        return f"{self.file.relative_to(SOURCE.parent)}:{self.line} imports {self.module}"


def part_of(file: Path) -> str:
    return part_named([name.removesuffix(".py") for name in file.relative_to(SOURCE).parts])


def part_named(names: list[str]) -> str:
    """The part that a module belongs to: its top folder, or the module itself where it has a level of its own."""
    longest = (".".join(names[:length]) for length in (3, 2))
    return next((name for name in longest if name in LEVEL), names[0] if names else "")


@cache
def imports() -> list[Import]:
    return list(read_imports())


def imports_of_ours() -> list[Import]:
    return [line for line in imports() if line.module.split(".")[0] == "noetl"]


def read_imports() -> Iterator[Import]:
    """Every import of the source, at the top or inside a function; imports for type checkers in `errors` aside."""
    for file in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(file.read_text("utf-8"))
        skipped = set(map(id, typing_only(tree))) if part_of(file) == "errors" else set()
        for node in ast.walk(tree):
            if id(node) in skipped:
                continue
            if isinstance(node, ast.Import):
                yield from (Import(file, node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{file}:{node.lineno}: write the whole name of the module"
                module = node.module or ""
                if module == "noetl":  # `from noetl import dsl`
                    yield from (Import(file, node.lineno, f"noetl.{alias.name}") for alias in node.names)
                else:
                    yield Import(file, node.lineno, module)


def typing_only(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from ast.walk(node)


def test_every_part_has_a_level() -> None:
    parts = {part_of(file) for file in SOURCE.rglob("*.py")} - {"__init__"}
    assert parts - LEVEL.keys() == set(), "give the new part a line in tests/test_imports.py"


def is_reversed(one: Import) -> bool:
    """Whether the import leads to a lower line, or to another package of the same line."""
    if LEVEL[one.imported] != LEVEL[one.part]:
        return LEVEL[one.imported] > LEVEL[one.part]
    return one.imported.split(".")[0] != one.part.split(".")[0]


def test_imports_point_one_way() -> None:
    reversed_arrows = [
        f"{one}: `{one.part}` stands above `{one.imported}`"
        for one in imports_of_ours()
        if one.part in LEVEL and one.imported in LEVEL and is_reversed(one)
    ]
    assert reversed_arrows == []


def test_only_the_command_line_imports_the_package_itself() -> None:
    assert [str(one) for one in imports_of_ours() if one.module == "noetl" and one.part != "cli"] == []


@pytest.mark.parametrize("part", PURE)
def test_pure_part_does_not_touch_the_world(part: str) -> None:
    assert [str(one) for one in imports() if one.part == part and one.module.split(".")[0] in WORLD] == []


def test_private_modules_of_others_stay_private() -> None:
    """`expression` is used through its front door: only its own files know how it is divided, and those two that weave
    its language into another one."""
    inside = [one for one in imports_of_ours() if one.module.startswith("noetl.expression.")]
    inside = [one for one in inside if one.part not in ("expression", "sql", "shell_text")]
    assert [str(one) for one in inside] == []
