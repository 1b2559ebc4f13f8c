"""The command `noetl`. Each verb is a module, imported only when it is called.

Data goes to stdout, messages go to stderr. Exit codes: 0 success, 1 run failed or cancelled, 2 usage, 3 invalid
playbook, 4 not found, 5 not authorized or credential missing, 6 conflict, 7 server unreachable, 124 timed out, 130
interrupted.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click

import noetl
from noetl import errors
from noetl.printable import printable
from noetl.settings import no_colour

VERBS = {
    "run": "Run a playbook and wait for its end",
    "runs": "List, show, follow, stop, resume, signal, fork, retry and compare runs",
    "register": "Store a playbook in the catalog, under its path and the next version",
    "exec": "Run a registered playbook",
    "catalog": "List and show registered playbooks",
    "explain": "Explain the decisions about a step of a run, or a problem code",
    "backup": "Copy a database while it is in use",
    "restore": "Create a database from a backup",
    "verify": "Check the logs of runs against every invariant",
    "validate": "Check playbooks and show every problem with its place",
    "graph": "Draw the graph of a playbook as text, mermaid, dot or svg",
    "schema": "Print the JSON Schema of playbooks, for editors",
    "migrate": "Rewrite a classic playbook in the canonical dialect",
    "schedule": "Start playbooks on a schedule: add, list, show, pause, trigger schedules",
    "hook": "Start playbooks by webhook: add, list, rotate, delete hooks",
    "credential": "Store encrypted credentials that playbooks sign in with",
    "token": "Create, list and revoke tokens of a server",
    "user": "Add, list and delete users who can sign in to a server",
    "tools": "List the tool kinds, or print the inputs of one",
    "dev": "Run server and worker in one process, for one person",
    "server": "Serve a database to workers and clients",
    "worker": "Execute tasks of a server",
    "workers": "List, drain and stop workers",
}
"""Verbs with one line each, so that `noetl --help` imports none of them."""

HIDDEN = frozenset(["sim"])  # verbs for contributors, which `noetl --help` does not list

MODULES = {
    **dict.fromkeys(["validate", "graph", "migrate", "schema", "tools"], "playbook"),
    **dict.fromkeys(["exec", "register", "catalog"], "run"),
    **dict.fromkeys(["verify", "explain"], "inspection"),
    **dict.fromkeys(["schedule", "hook"], "triggers"),
    **dict.fromkeys(["token", "user"], "access"),
    "dev": "server",
    "restore": "backup",
}
"""Modules of verbs that share one; the others have one of their own."""

SERVER_PACKAGES = frozenset(["argon2", "cronsim", "starlette", "uvicorn"])  # packages of the extra `server`

EXIT_CODES: dict[type[errors.NoetlError], int] = {
    errors.UsageError: 2,
    errors.PlaybookInvalid: 3,
    errors.FileMissing: 4,
    errors.NotFound: 4,
    errors.AuthError: 5,
    errors.Conflict: 6,
    errors.DatabaseBehind: 6,
    errors.ServerUnreachable: 7,
    errors.TimedOut: 124,
    errors.Interrupted: 130,
}


class Verbs(click.Group):
    """Imports the module of a verb when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS and cmd_name not in HIDDEN:
            return None
        module = import_module(f"noetl.cli.{MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, f"{cmd_name}_command" if cmd_name in MODULES else "command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        command_line = list(args)  # the parser consumes `args`
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            ctx.fail(f"{error.message} Options follow the verb: {self._reordered(command_line)}.")

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            ctx.fail(f"unknown verb {args[0]!r}: {self._advice(ctx, args[0])}")
        return super().resolve_command(ctx, args)

    def _reordered(self, args: list[str]) -> str:
        """The command with its options after its verb."""
        import shlex

        verb = next((index for index, word in enumerate(args) if word in VERBS), len(args))
        return f"`{shlex.join(['noetl', *(args[verb:] or ['runs', 'list']), *args[:verb]])}`"

    def _advice(self, ctx: click.Context, word: str) -> str:
        """The verbs below another one that have this name, or the closest verb."""
        from noetl.dsl.problem import did_you_mean

        groups = [(verb, self.get_command(ctx, verb)) for verb in VERBS]
        longer = [f"`noetl {verb} {word}`" for verb, group in groups if word in getattr(group, "commands", ())]
        if longer:
            return f"did you mean {', '.join(longer[:-1])}{' or ' if len(longer) > 1 else ''}{longer[-1]}?"
        return did_you_mean(word, VERBS) or "`noetl --help` lists all verbs"


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(noetl.__version__, prog_name="noetl")
@click.pass_context
def noetl_command(ctx: click.Context) -> None:
    """Check, draw and run noetl playbooks, and control their runs."""
    if no_colour():
        ctx.color = False


def _open_closed_streams() -> None:
    """Standard streams that the parent closed (`>&-`) lead to /dev/null. Otherwise a file that is opened later gets the
    number of a stream, and output of child processes is written into it. `sys.stdin` stays None: `-` reports it."""
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


def _has_working_folder() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def main() -> None:
    _open_closed_streams()
    try:
        noetl_command(prog_name="noetl")
    except errors.NoetlError as error:
        click.echo(printable(f"noetl: {error}", lines=True), err=True)
        sys.exit(next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), 1))
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in SERVER_PACKAGES:
            raise
        click.echo(f"noetl: {error.name} is not installed: pip install 'noetl-engine[server]'", err=True)
        sys.exit(2)
    except OSError as error:  # errors of reading files are reported where they are read
        if not _has_working_folder():
            click.echo("noetl: the working folder was deleted: change to another folder", err=True)
            sys.exit(4)
        click.echo(f"noetl: cannot write: {error.strerror or error}", err=True)
        sys.exit(1)
