"""noetl run, noetl exec, noetl register, noetl catalog: playbooks that run from a file, or from the catalog."""

from __future__ import annotations

import os
import sys

import click
from msgspec.structs import replace

from noetl.cli.options import (
    client_and_output,
    embedded_client_and_output,
    input_options,
    split_version,
    timeout_option,
)
from noetl.cli.output import emit, excerpt, pick, print_message, print_problems, print_rejected, print_result
from noetl.cli.progress import new_view
from noetl.cli.start import collect_garbage
from noetl.client.client import Client, Json, NewRun
from noetl.dsl.compile import load
from noetl.dsl.payload import UNKNOWN_NAME_CODE, check_args
from noetl.dsl.tree import Mark, is_template
from noetl.errors import NoetlError, NotFound, PlaybookInvalid
from noetl.printable import printable
from noetl.runtime.catalog import PlaybookSource, read
from noetl.runtime.child_files import child_file
from noetl.runtime.loaded_playbooks import obstacles
from noetl.settings import nats_settings
from noetl.tools.registry import KINDS


@click.command("run")
@click.argument("file", metavar="FILE")
@input_options
@click.option("--verify", is_flag=True, help="Check the log against every invariant when the run ends.")
@embedded_client_and_output
def command(file: str, inputs: Json, verify: bool, client: Client, output: str | None) -> int:
    """Run a playbook, wait for its end, and print its result. `-` reads standard input.

    The payload is laid over the playbook's workload. The exit code is 0 if the run succeeded, 1 if it failed or was
    cancelled, 3 if the playbook cannot run, and 130 after Ctrl-C: then the run can be resumed. With `--verify` it is
    also 1 if the log violates an invariant of the engine; the violations are printed to stderr. Include them in a bug
    report.
    """
    source = read(file)
    if not is_runnable(source, quiet=output is not None, remote=not client.runs.in_process):
        return 3
    if output is None and not client.runs.in_process:
        _warn_about_children(client, source)
    collect_garbage()
    try:
        run = client.runs.run(NewRun(inputs, source), new_view(output))
    except PlaybookInvalid as error:
        print_refused(error, source)
        return 3
    code = print_result(client, run, output)
    if verify:
        from noetl.cli.inspection import print_violations, verdict

        violations = client.runs.verify(run["execution_id"])["violations"]
        print_violations(violations, err=True)
        print_message(f"log: {verdict(violations)}")
        code = 1 if violations else code
    return code


@click.command("exec")
@click.argument("path", metavar="PATH[@VERSION]")
@input_options
@click.option("--wait", is_flag=True, help="Wait for the end of the run, and exit by its outcome.")
@timeout_option
@client_and_output
def exec_command(path: str, inputs: Json, wait: bool, timeout: float | None, client: Client, output: str | None) -> int:
    """Run a registered playbook. A server starts it and its id is printed; --wait waits for its end.

    Without a server it runs in this process, as with `noetl run`.
    """
    name, version = split_version(path)
    new = NewRun({"path": name, "version": version, **inputs})
    try:
        if client.runs.in_process or wait or timeout is not None:
            collect_garbage()
            return print_result(client, client.runs.run(new, new_view(output), timeout), output)
        started = client.runs.start(new)
    except PlaybookInvalid as error:
        print_refused(error)
        return 3
    emit(started, output, lambda started: click.echo(started["execution_id"]))
    return 0


def print_refused(error: PlaybookInvalid, source: PlaybookSource | None = None) -> None:
    """Print why a run did not start, with the lines of the file if there is one."""
    problems = list(error.problems)
    if source is not None:
        problems = [replace(fault, file=source.display_path, source=source.line(fault.line)) for fault in problems]
    print_rejected(problems[0].file, problems, "; nothing was run")


def is_runnable(source: PlaybookSource, *, quiet: bool, remote: bool = False) -> bool:
    """Whether the playbook can run; if not, every reason is printed. A server checks by itself whether it has NATS."""
    problems, playbook = source.loaded.problems, source.loaded.playbook
    if playbook is None:
        print_rejected(source.display_path, problems, "; nothing was run")
        return False
    if not quiet:  # the start of the run decides about names that a payload may provide
        print_problems([problem for problem in problems if problem.code != UNKNOWN_NAME_CODE], err=True)
    missing = list(obstacles(playbook, nats=remote or nats_settings() is not None))
    for place, reason in missing:
        mark = source.places.get(place) or source.places.get(place.partition("/")[0])
        where = f"{source.display_path}:{mark.line}:{mark.column}" if mark else source.display_path
        title = click.style("error", fg="red", bold=True)
        lines = [f"{click.style(where, bold=True)}: {title}: {reason}"]
        lines += excerpt(mark.line, mark.column, source.line(mark.line), "red") if mark else []
        print_message("\n".join(lines))
    return not missing


@click.command("register")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@embedded_client_and_output
def register_command(files: tuple[str, ...], client: Client, output: str | None) -> int:
    """Register playbooks under their `metadata.path`. Content that is registered already keeps its version. `-` reads
    standard input."""
    sources = [read(file) for file in files]
    for source in sources:
        if source.loaded.playbook is None:
            print_rejected(source.display_path, source.loaded.problems, "; nothing was registered")
            return 3
        print_problems(source.loaded.problems, err=True)
    entries = [client.catalog.register(source) for source in sources]
    for source in sources:
        _warn_about_children(client, source)
    names = "\n".join(f"{entry['path']}@{entry['version']}" for entry in entries)
    emit(entries if len(entries) > 1 else entries[0], output, lambda _: click.echo(names))
    return 0


def _warn_about_children(client: Client, source: PlaybookSource) -> None:
    """Warn about child playbooks that a server cannot find, and about args that they do not expect."""
    for step in source.loaded.require().steps:
        for place, task in step.every_task:
            path, version = task.inputs.get("path"), task.inputs.get("version")
            if task.kind != "playbook" or not isinstance(path, str) or is_template(path):
                continue
            mark = source.places.get(place) or source.places[step.name]
            text = _registered_text(client, path, version if isinstance(version, int) else None)
            if text is not None:
                name, child = path, load(path, text, KINDS, stored=True)
            else:
                file = _file_of_child(source, path)
                if file is None or not client.runs.in_process:  # a server on this database finds the file, too
                    _print_warning(source, mark, _advice(path, file))
                if file is None:
                    continue
                name, child = os.path.relpath(file), read(file).loaded
            at = source.places.get(f"{place}/input/args") or mark
            for warning in check_args(child.playbook, child.inputs, name, task.args) if child.playbook else ():
                _print_warning(source, at, f"the args for {path!r}: {warning}")


def _print_warning(source: PlaybookSource, mark: Mark, message: str) -> None:
    where = click.style(f"{source.display_path}:{mark.line}:{mark.column}", bold=True)
    print_message(f"{where}: {click.style('warning', fg='yellow', bold=True)}: {message}")
    print_message("\n".join(excerpt(mark.line, mark.column, source.line(mark.line), "yellow")))


def _registered_text(client: Client, path: str, version: int | None) -> str | None:
    try:
        text: str = client.catalog.get(path, version=version)["text"]
    except NotFound:
        return None
    return text


def _file_of_child(source: PlaybookSource, path: str) -> str | None:
    try:
        return child_file(source.file, path)
    except NoetlError:
        return None


def _advice(path: str, file: str | None) -> str:
    if file is None:
        return f"no playbook is registered as {path!r}, and no file beside this one is: register it, too"
    child = read(file).loaded.playbook
    spelling = f", and call it by its path: `path: {child.path}`" if child is not None and child.path != path else ""
    return f"no playbook is registered as {path!r}: register it with `noetl register {os.path.relpath(file)}`{spelling}"


@click.group("catalog")
def catalog_command() -> None:
    """List and show registered playbooks."""


@catalog_command.command("list")
@click.option("--prefix", metavar="PATH", help="List only paths that begin with PATH.")
@client_and_output
def list_command(prefix: str | None, client: Client, output: str | None) -> None:
    """List playbooks, each with its current version."""
    entries = client.catalog.list(prefix=prefix)
    emit(entries if output else pick(entries, "path", "version", "label", "registered"), output)
    if not entries and output is None:
        print_message("no registered playbooks" if prefix is None else f"no registered playbooks below {prefix!r}")


@catalog_command.command("show")
@click.argument("path", metavar="PATH[@VERSION]")
@client_and_output
def show_command(path: str, client: Client, output: str | None) -> None:
    """Print the text of a playbook; `-o json` also lists its versions."""
    name, version = split_version(path)
    playbook = client.catalog.get(name, version=version)
    if output is not None:
        emit(playbook, output)
        return
    text = printable(playbook["text"], lines=True) if sys.stdout.isatty() else playbook["text"]
    click.echo(text, nl=not text.endswith("\n"))
