"""A page for each check, with the examples that tests/checks holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import click
from click.testing import CliRunner

import noetl.dsl.migrate  # noqa: F401  declares the checks, with all it imports
from docs._markdown import capital, fence, page, sentence, table
from noetl.cli.main import noetl_command
from noetl.dsl.compile import TOO_EXPENSIVE, too_expensive
from noetl.dsl.problem import CHECKS, Check
from noetl.server.compiler import BUDGET_SECONDS

EXAMPLES = Path(__file__).parents[1] / "tests" / "checks"
FILE = "playbook.yaml"
COMMANDS = {"NTL114": ["validate", "--strict"], "NTL601": ["migrate"]}
"""How a check is met, where that is not plain `noetl validate`."""

FAMILIES = {
    "0": ("Reading", "The text can't be read as one YAML document."),
    "1": ("The document", "A key, a value or a dialect is not what the language has."),
    "2": ("Names and inputs", "A name is taken, unknown or reserved, or a tool gets the wrong inputs."),
    "3": ("Task policies", "Rules that can't be followed, and pipelines that can't end."),
    "4": ("The net", "What can be reached, what may meet, and what is read but never written."),
    "5": ("Templates", "Expressions that do not parse, or read what can't be seen where they stand."),
    "6": ("Migration", "What `noetl migrate` can't rewrite."),
}


class Expected(NamedTuple):
    """What the first line of a bad example promises."""

    line: int
    column: int
    fragment: str


class Example(NamedTuple):
    """An example of a check: its bytes, the text a reader sees, and what is expected of it if it is a bad one."""

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


def pages() -> Iterator[tuple[str, str]]:
    """Every page by its path below docs/reference."""
    yield "problems/index.md", _index()
    for code in sorted(CHECKS):
        yield f"problems/{code}.md", _problem(CHECKS[code])


def _index() -> str:
    parts = [
        "Every problem that noetl finds in a playbook has a code that does not change from release to release. An "
        "**error** means that the playbook can't run. A **warning** means that it can, and that something about it is "
        "probably not what its author meant.",
        "`noetl validate FILE` shows all problems of a playbook at once, each with its line and column, and exits with "
        "3 if there is an error. See [the command line](../cli.md#noetl-validate).",
    ]
    for digit, (title, about) in FAMILIES.items():
        rows = [
            (f"[{code}]({code}.md)", check.severity, capital(check.title))
            for code, check in sorted(CHECKS.items())
            if code[3] == digit
        ]
        if rows:
            parts += [f"## {title}", about, table(["Code", "Severity", "Problem"], rows)]
    return page("Problems", *parts)


def _problem(check: Check) -> str:
    bad, good = example(check.code, "bad"), example(check.code, "good")
    return page(
        f"{check.code}: {check.title}",
        f"{check.severity.capitalize()} · {FAMILIES[check.code[3]][0]} · [all problems](index.md)",
        sentence(check.why),
        "## With the problem",
        fence(bad.shown, "yaml"),
        *_answer(check, bad),
        "## Without it",
        fence(good.shown, "yaml"),
    )


def _answer(check: Check, bad: Example) -> list[str]:
    """How the problem shows."""
    if check is TOO_EXPENSIVE:
        (problem,) = too_expensive(
            FILE, bad.data, f"takes more than {BUDGET_SECONDS:g} s of CPU time to compile"
        ).problems
        return ["A server answers:", fence(f"{problem}\nhint: {problem.hint}\n", "text")]
    command = " ".join([*_command(check.code), FILE])
    return [f"`noetl {command}` prints:", fence(_printed(check.code, bad), "text")]


def _command(code: str) -> list[str]:
    return COMMANDS.get(code, ["validate"])


def _printed(code: str, bad: Example) -> str:
    """What the command says about the example as the page shows it: without its first line."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / FILE
        path.write_bytes(bad.data.partition(b"\n")[2])
        result = CliRunner().invoke(noetl_command, [*_command(code), str(path)])
    return click.unstyle(result.output).replace(str(path), FILE)
