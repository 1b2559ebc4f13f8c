"""A page for each family of checks, with the examples from tests/checks."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import click
from click.testing import CliRunner

import noetl.dsl.migrate  # noqa: F401  declares the checks, with all it imports
from noetl.cli.main import noetl_command
from noetl.dsl.compile import CPU_SECONDS, TOO_EXPENSIVE, too_expensive
from noetl.dsl.problem import CHECKS, Check
from tools.docs.markdown import capital, fence, page, sentence, table

EXAMPLES = Path(__file__).parents[2] / "tests" / "checks"
WHY: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
"""Why each check exists, by its code."""
FILE = "playbook.yaml"
COMMANDS = {"NTL114": ["validate", "--strict"], "NTL601": ["migrate"], "NTL602": ["migrate"], "NTL603": ["migrate"]}
"""The command that reports a check, where it is not plain `noetl validate`."""


class Family(NamedTuple):
    """The checks whose codes share their first digit."""

    page: str
    title: str
    summary: str


FAMILIES = {
    "0": Family("reading", "Reading", "The text cannot be read as one YAML document."),
    "1": Family("document", "Document", "A key, a value or a dialect is not part of the language."),
    "2": Family("names", "Names and inputs", "A name is taken, unknown or reserved, or a tool gets wrong inputs."),
    "3": Family("policies", "Task policies", "Rules that cannot be followed, and pipelines that cannot end."),
    "4": Family("net", "Net", "Steps that cannot be reached, tokens that may meet, values that are never written."),
    "5": Family("templates", "Templates", "Expressions that do not parse, or read a name that is not visible there."),
    "6": Family("migration", "Migration", "Constructs that `noetl migrate` cannot rewrite."),
}
"""By the first digit of the code."""


class Expected(NamedTuple):
    """The problem that the first line of a bad example announces."""

    line: int
    column: int
    fragment: str


class Example(NamedTuple):
    """An example of a check: its bytes, the text on the page, and the expected problem of a bad one."""

    data: bytes
    shown: str
    expected: Expected | None


def example(code: str, kind: str) -> Example:
    """The `bad` or the `good` example of a check."""
    data = (EXAMPLES / f"{code}.{kind}.yaml").read_bytes()
    text = data.decode("utf-8", "replace")
    if kind == "good":
        return Example(data, text, None)
    head, _, rest = text.partition("\n")
    place, _, fragment = head.removeprefix("# expect: ").partition(" ")
    line, _, column = place.partition(":")
    return Example(data, rest, Expected(int(line), int(column), fragment))


def link(code: str) -> str:
    """A link to a problem from a page of the reference."""
    return f"[{code}](problems/{_place(code)})"


def _place(code: str) -> str:
    return f"{FAMILIES[code[3]].page}.md#{code.lower()}"


def pages() -> Iterator[tuple[str, str]]:
    """Every page by its path below docs."""
    yield "reference/problems/index.md", _index()
    for digit, family in FAMILIES.items():
        yield f"reference/problems/{family.page}.md", _family(family, _checks(digit))


def _checks(digit: str) -> list[Check]:
    return [check for code, check in sorted(CHECKS.items()) if code[3] == digit]


def _index() -> str:
    parts = [
        "Every problem that noetl reports in a playbook has a code that stays the same from release to release. An "
        "**error** means that the playbook cannot run. A **warning** means that it can run, but that something is "
        "probably not what its author meant.",
        "`noetl validate FILE` reports all problems of a playbook at once, each with its line and column, and exits "
        "with 3 if there is an error. See [the command line](../cli.md#noetl-validate).",
    ]
    for digit, family in FAMILIES.items():
        parts += [f"## {family.title}", family.summary, _table(_checks(digit))]
    return page("Problems", *parts)


def _table(checks: list[Check]) -> str:
    rows = [(f"[{check.code}]({_place(check.code)})", check.severity, capital(check.title)) for check in checks]
    return table(["Code", "Severity", "Problem"], rows)


def _family(family: Family, checks: list[Check]) -> str:
    sections = (part for check in checks for part in _problem(check))
    return page(f"Problems: {family.title}", f"{family.summary} [All problems](index.md).", *sections)


def _problem(check: Check) -> Iterator[str]:
    bad, good = example(check.code, "bad"), example(check.code, "good")
    yield f"## {check.code}"
    yield f"**{check.severity.capitalize()}:** {sentence(check.title)}"
    yield sentence(WHY[check.code])
    yield fence(bad.shown, "yaml")
    yield from _answer(check, bad)
    yield "Fixed:"
    yield fence(good.shown, "yaml")


def _answer(check: Check, bad: Example) -> list[str]:
    if check is TOO_EXPENSIVE:
        (problem,) = too_expensive(FILE, bad.data, f"takes more than {CPU_SECONDS:g} s of CPU time to compile").problems
        return ["A server responds:", fence(f"{problem}\nhint: {problem.hint}\n", "text")]
    command = " ".join([*_command(check.code), FILE])
    return [f"`noetl {command}` prints:", fence(_printed(check.code, bad), "text")]


def _command(code: str) -> list[str]:
    return COMMANDS.get(code, ["validate"])


def _printed(code: str, bad: Example) -> str:
    """The output of the command for the example as the page shows it: without its first line."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / FILE
        path.write_bytes(bad.data.partition(b"\n")[2])
        result = CliRunner().invoke(noetl_command, [*_command(code), str(path)])
    return click.unstyle(result.output).replace(str(path), FILE)
