"""noetl validate FILE...: is this playbook sound, and if not, what is wrong where."""

from __future__ import annotations

from typing import NamedTuple

import click
import msgspec

from noetl.cli.output import emit, output_option
from noetl.cli.place import INSECURE_HELP
from noetl.cli.report import print_problems, summary
from noetl.dsl.problem import Problem
from noetl.errors import FileMissing
from noetl.files import STDIN, load_file, read_file
from noetl.printable import printable
from noetl.settings import ServerAddress, server_address

KEYS = ("file", "line", "column", "code", "severity", "message", "hint")
SERVER_HELP = "Let this server check them, with the kinds that it has. NOETL_TOKEN has the token."


class Checked(NamedTuple):
    """What was found in a playbook, and in few words what it is; empty if it can't be run."""

    problems: list[Problem]
    about: str


@click.command("validate")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--strict", is_flag=True, help="Refuse the classic dialect.")
@click.option("--server", metavar="URL", help=SERVER_HELP)
@click.option("--insecure", is_flag=True, help=INSECURE_HELP)
@output_option()
@click.pass_context
def command(
    ctx: click.Context, files: tuple[str, ...], strict: bool, server: str | None, insecure: bool, output: str | None
) -> None:
    """Check playbooks and show every problem with its place. `-` reads standard input.

    Exits with 3 if any playbook has an error, and with 4 if a file does not exist. Warnings alone exit with 0. This is
    done here, also where NOETL_SERVER names a server; --server asks one.
    """
    address = server_address(server, insecure=insecure) if server else None
    problems: list[Problem] = []
    missing = False
    for name in files:
        try:
            checked = _here(name, strict) if address is None else _there(name, strict, address)
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


def _here(name: str, strict: bool) -> Checked:
    loaded = load_file(name, strict=strict)
    if loaded.playbook is None:
        return Checked(list(loaded.problems), "")
    count = len(loaded.playbook.steps)
    return Checked(list(loaded.problems), f"{loaded.dialect}, {count} step{'s' * (count != 1)}")


def _there(name: str, strict: bool, address: ServerAddress) -> Checked:
    """The server knows neither the file's name nor how its lines look here."""
    from noetl.cli.remote import server

    text = read_file(name)
    lines, shown = text.decode("utf-8", "replace").splitlines(), "<stdin>" if name == STDIN else name
    with server(address) as remote:
        answer = remote.post_text("/playbooks/validate", text, strict="true" if strict else None)
    problems = [
        msgspec.convert(one | {"file": shown, "source": "".join(lines[one["line"] - 1 : one["line"]])[:500]}, Problem)
        for one in answer["problems"]
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
