"""noetl validate FILE...: check playbooks."""

from __future__ import annotations

from typing import NamedTuple

import click

from noetl.cli.output import emit, output_option
from noetl.cli.report import print_problems, summary
from noetl.cli.target import INSECURE_HELP, warn
from noetl.dsl.problem import Problem
from noetl.errors import FileMissing
from noetl.files import STDIN, load_file, read_file
from noetl.printable import printable
from noetl.settings import ServerAddress, server_address

KEYS = ("file", "line", "column", "code", "severity", "message", "hint")
SERVER_HELP = "Server that checks them, with its own tool kinds. Its token is read from NOETL_TOKEN."


class Checked(NamedTuple):
    """The problems of a playbook, and a short description; empty if it cannot run."""

    problems: list[Problem]
    about: str


@click.command("validate")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--strict", is_flag=True, help="Reject the classic dialect.")
@click.option("--server", metavar="URL", help=SERVER_HELP)
@click.option("--insecure", is_flag=True, help=INSECURE_HELP)
@output_option()
@click.pass_context
def command(
    ctx: click.Context, files: tuple[str, ...], strict: bool, server: str | None, insecure: bool, output: str | None
) -> None:
    """Check playbooks and show every problem with its place. `-` reads standard input.

    Exits with 3 if any playbook has an error, and with 4 if a file does not exist. Warnings alone exit with 0.
    Playbooks are checked locally, also if NOETL_SERVER is set, unless --server is used.
    """
    address = server_address(server, insecure=insecure) if server else None
    problems: list[Problem] = []
    missing = False
    for name in files:
        try:
            checked = _check(name, strict) if address is None else _check_remotely(name, strict, address)
        except FileMissing as error:
            click.echo(printable(f"noetl: {error}", lines=True), err=True)
            missing = True
            continue
        problems += checked.problems
        if output is None:
            _show(name, checked)
    if output is not None:
        emit([{key: getattr(problem, key) for key in KEYS} for problem in problems], output)
    if any(problem.severity == "error" for problem in problems):
        ctx.exit(4 if missing else 3)
    ctx.exit(4 if missing else 0)


def _check(name: str, strict: bool) -> Checked:
    loaded = load_file(name, strict=strict)
    if loaded.playbook is None:
        return Checked(list(loaded.problems), "")
    count = len(loaded.playbook.steps)
    return Checked(list(loaded.problems), f"{loaded.dialect}, {count} step{'s' * (count != 1)}")


def _check_remotely(name: str, strict: bool, address: ServerAddress) -> Checked:
    """The server knows neither the name of the file nor its lines."""
    from noetl.client.http import HttpClient, problem_of

    text = read_file(name)
    lines, file = text.decode("utf-8", "replace").splitlines(), "<stdin>" if name == STDIN else name
    client = HttpClient(address, warn)
    try:
        answer = client.catalog.validate(text, strict)
    finally:
        client.close()
    problems = [
        problem_of(fault, file=file, source="".join(lines[fault["line"] - 1 : fault["line"]])[:500])
        for fault in answer["problems"]
    ]
    return Checked(problems, f"checked by {address.url}" if answer["valid"] else "")


def _show(name: str, checked: Checked) -> None:
    print_problems(checked.problems)
    if not checked.about:
        click.echo(f"{name}: {summary(checked.problems)}", err=True)
        return
    count = len(checked.problems)
    warnings = f", {count} warning{'s' * (count != 1)}" if count else ""
    verdict = click.style("sound", fg="green", bold=True)
    click.echo(f"{name}: {verdict} ({checked.about}{warnings})", err=True)
