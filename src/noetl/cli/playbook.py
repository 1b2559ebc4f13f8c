"""noetl validate, noetl graph, noetl migrate, noetl schema, noetl tools: the language, and playbooks in files."""

from __future__ import annotations

import os
import stat
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from noetl.cli.options import INSECURE_HELP
from noetl.cli.output import emit, output_option, print_message, print_problems, print_rejected, summary
from noetl.dsl.problem import Problem, did_you_mean
from noetl.durable import replace_file
from noetl.errors import FileMissing, PlaybookInvalid, UsageError
from noetl.files import STDIN, display_name, load_file, read_file, read_playbook
from noetl.model.inputs import rows, schema
from noetl.printable import printable
from noetl.settings import ServerAddress, server_address
from noetl.tools.registry import KINDS
from noetl.wording import counted

if TYPE_CHECKING:
    from noetl.drawing import Format

KEYS = ("file", "line", "column", "code", "severity", "message", "hint")
RANGE_KEYS = ("end_line", "end_column", "path", "fix")  # for programs; a table has no room for them
DRAWING = click.Choice(["text", "mermaid", "dot", "svg", "json"])
SERVER_HELP = "Server that checks them, with its own tool kinds. Its token is read from NOETL_TOKEN."


@click.command("validate")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--strict", is_flag=True, help="Reject the classic dialect.")
@click.option("--server", metavar="URL", help=SERVER_HELP)
@click.option("--insecure", is_flag=True, help=INSECURE_HELP)
@output_option()
@click.pass_context
def validate_command(
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
            faults, about = _check(name, strict, address)
        except FileMissing as error:
            print_message(printable(f"noetl: {error}", lines=True))
            missing = True
            continue
        problems += faults
        if output is None:
            _print_checked(name, faults, about)
    if output is not None:
        keys = KEYS if output == "table" else KEYS + RANGE_KEYS
        emit([{key: getattr(problem, key) for key in keys} for problem in problems], output)
    invalid = any(problem.severity == "error" for problem in problems)
    ctx.exit(4 if missing else 3 if invalid else 0)


def _check(name: str, strict: bool, address: ServerAddress | None) -> tuple[list[Problem], str]:
    """The problems of a playbook, and a short description; empty if it cannot run."""
    if address is None:
        loaded = load_file(name, strict=strict)
        steps = loaded.playbook.steps if loaded.playbook is not None else ()
        return list(loaded.problems), f"{loaded.dialect}, {counted(len(steps), 'step')}" if loaded.playbook else ""
    from noetl.client.http import HttpClient, problem_of

    try:
        text = read_playbook(name)
    except PlaybookInvalid as error:  # a program cannot be read
        return list(error.problems), ""
    with closing(HttpClient(address, print_message)) as client:
        answer = client.catalog.validate(text, strict)
    problems = []
    lines, file = text.decode("utf-8", "replace").splitlines(), display_name(name)
    for fault in answer["problems"]:  # the server knows neither the name of the file nor its lines
        source = "".join(lines[fault["line"] - 1 : fault["line"]])[:500]
        problems.append(problem_of(fault, file=file, source=source))
    return problems, f"checked by {address.url}" if answer["valid"] else ""


def _print_checked(name: str, problems: list[Problem], about: str) -> None:
    print_problems(problems)
    if about:
        warnings = f", {counted(len(problems), 'warning')}" if problems else ""
        print_message(f"{name}: {click.style('sound', fg='green', bold=True)} ({about}{warnings})")
    else:
        print_message(f"{name}: {summary(problems)}")


@click.command("graph")
@click.argument("file")
@click.option("--format", "form", type=DRAWING, default="text", show_default=True, help="Format of the drawing.")
@click.pass_context
def graph_command(ctx: click.Context, file: str, form: Format) -> None:
    """Draw the graph of a playbook: a box per step, an arrow per arc, guards on the arrows."""
    import shutil

    from noetl.drawing import draw

    loaded = load_file(file)
    if loaded.playbook is None:
        print_rejected(file, loaded.problems)
        ctx.exit(3)
    width = shutil.get_terminal_size((100, 24)).columns
    click.echo(draw(loaded.playbook, form, width=width, places=loaded.places), nl=False)


@click.command("migrate")
@click.argument("file", metavar="FILE")
@click.option("--write", is_flag=True, help="Rewrite the file in place.")
@click.pass_context
def migrate_command(ctx: click.Context, file: str, write: bool) -> None:
    """Rewrite a playbook in the canonical dialect; comments stay. `-` reads standard input.

    It reads the classic dialect and other generations of the language: `apiVersion: noetl.io/v10`, and the one with
    `input`, `output` and `set`. The new text goes to standard output. A playbook with a construct that cannot be
    rewritten stays as it is: every such construct is listed, and the exit code is 3, as for an invalid playbook.
    """
    from noetl.dsl.migrate import migrate

    if write and file == STDIN:
        raise UsageError("--write needs a file (got `-`, which is standard input)")
    migrated = migrate(display_name(file), read_file(file), KINDS)
    if migrated.failed:
        print_problems(migrated.leftovers or migrated.problems, err=True)
        print_message(f"{file}: nothing was rewritten")
        ctx.exit(3)
    if not write:
        click.echo(migrated.text.encode(), nl=False)
    elif migrated.changed:
        path = Path(file).resolve()  # a link stays a link
        draft = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
        replace_file(path, migrated.text.encode(), draft, stat.S_IMODE(path.stat().st_mode))
    print_problems(migrated.notes, err=True)
    print_message(f"{file}: {'rewritten' if migrated.changed else 'is canonical already'}")


@click.command("schema")
def schema_command() -> None:
    """Print the JSON Schema (2020-12) of playbooks.

    Point an editor at it, for instance with `# yaml-language-server: $schema=noetl.schema.json` on the first line.
    """
    from noetl.dsl.schema import playbook_schema

    emit(playbook_schema(KINDS.all()), "json")


@click.group("tools", invoke_without_command=True)
@output_option()
@click.pass_context
def tools_command(ctx: click.Context, output: str | None) -> None:
    """List the tool kinds, built-in ones and plug-ins."""
    if ctx.invoked_subcommand is None:
        kinds = sorted(KINDS.all().items())
        listed = [{"kind": kind.name, "extra": kind.extra, "summary": kind.summary} for _, kind in kinds]
        emit(listed, output)


@tools_command.command("schema")
@click.argument("kind")
@output_option()
def kind_schema_command(kind: str, output: str | None) -> None:
    """Print the inputs of one kind: as a table, or with `-o json` as JSON Schema."""
    tool = KINDS.get(kind)
    if tool is None:
        hint = did_you_mean(kind, KINDS.names()) or "`noetl tools` lists all kinds"
        raise FileMissing(f"unknown tool kind {kind!r}: {hint}")
    if output in (None, "table"):
        emit([row._asdict() for row in rows(tool)], "table")
    else:
        emit(schema(tool), output or "json")
