"""noetl validate FILE...: is this playbook sound, and if not, what is wrong where."""

from __future__ import annotations

import click

from noetl.cli.output import emit, output_option
from noetl.cli.report import print_problems, summary
from noetl.dsl.compile import Loaded
from noetl.dsl.problem import Problem
from noetl.errors import FileMissing
from noetl.files import load_file

KEYS = ("file", "line", "column", "code", "severity", "message", "hint")


@click.command("validate")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--strict", is_flag=True, help="Refuse the classic dialect.")
@output_option()
@click.pass_context
def command(ctx: click.Context, files: tuple[str, ...], strict: bool, output: str | None) -> None:
    """Check playbooks and show every problem with its place. `-` reads standard input.

    Exits with 3 if any playbook has an error, and with 4 if a file does not exist. Warnings alone exit with 0.
    """
    problems: list[Problem] = []
    missing = False
    for name in files:
        try:
            loaded = load_file(name, strict=strict)
        except FileMissing as error:
            click.echo(f"noetl: {error}", err=True)
            missing = True
            continue
        problems += loaded.problems
        if output is None:
            _show(name, loaded)
    if output is not None:
        emit([{key: getattr(problem, key) for key in KEYS} for problem in problems], output)
    if any(problem.severity == "error" for problem in problems):
        ctx.exit(4 if missing else 3)
    ctx.exit(4 if missing else 0)


def _show(name: str, loaded: Loaded) -> None:
    print_problems(loaded.problems)
    if loaded.playbook is None:
        click.echo(f"{name}: {summary(loaded.problems)}", err=True)
        return
    count = len(loaded.playbook.steps)
    warnings = f", {len(loaded.problems)} warning{'s' * (len(loaded.problems) != 1)}" if loaded.problems else ""
    verdict = click.style("sound", fg="green", bold=True)
    click.echo(f"{name}: {verdict} ({loaded.dialect}, {count} step{'s' * (count != 1)}{warnings})", err=True)
