"""Problems as people read them: the place, the line, a caret under the fault, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any

import click

from noetl.dsl.problem import Problem
from noetl.printable import printable

COLOURS = {"error": "red", "warning": "yellow"}
MAX_COLUMNS = 160


def print_problems(problems: Iterable[Problem], *, stream: IO[Any] | None = None) -> None:
    """Print each problem with the line it is about."""
    for problem in problems:
        click.echo(problem_text(problem), file=stream)


def problem_text(problem: Problem) -> str:
    colour = COLOURS[problem.severity]
    place = f"{problem.file}:{problem.line}:{problem.column}"
    title = click.style(f"{problem.severity} {problem.code}", fg=colour, bold=True)
    shown = excerpt(problem.line, problem.column, problem.source, colour)
    message = printable(problem.message, lines=True)
    lines = [f"{click.style(printable(place), bold=True)}: {title}: {message}", *shown]
    if problem.hint:
        lines.append(
            f"{' ' * len(str(problem.line))} {click.style('=', fg='cyan')} {printable(problem.hint, lines=True)}"
        )
    return "\n".join(lines)


def excerpt(line: int, column: int, source: str, colour: str) -> list[str]:
    """The offending line and a caret; a long line is cut around the fault."""
    gutter = str(line)
    source = "".join(char if char.isprintable() else " " for char in source)
    start = max(0, column - 1 - MAX_COLUMNS // 2) if len(source) > MAX_COLUMNS else 0
    shown = source[start : start + MAX_COLUMNS]
    caret = " " * (column - 1 - start) + click.style("^", fg=colour, bold=True)
    bar = click.style("|", fg="cyan")
    return [f"{gutter} {bar} {shown}", f"{' ' * len(gutter)} {bar} {caret}"]


def summary(problems: Iterable[Problem]) -> str:
    """`2 errors, 1 warning`."""
    found = list(problems)
    errors = sum(problem.severity == "error" for problem in found)
    warnings = len(found) - errors
    return f"{errors} error{'s' * (errors != 1)}, {warnings} warning{'s' * (warnings != 1)}"
