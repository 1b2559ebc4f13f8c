"""noetl migrate FILE: a classic playbook in the canonical dialect."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from contextlib import suppress

import click


@click.command("migrate")
@click.argument("file", metavar="FILE")
@click.option("--write", is_flag=True, help="Rewrite the file in place.")
@click.pass_context
def command(ctx: click.Context, file: str, write: bool) -> None:
    """Rewrite a classic playbook in the canonical dialect; comments stay. `-` reads standard input.

    The new text goes to standard output. A playbook with a construct that has no canonical spelling stays as it is:
    every such construct is listed, and the exit code is 3, as for an invalid playbook.
    """
    from noetl.dsl.migrate import migrate
    from noetl.errors import UsageError
    from noetl.files import STDIN, read_file
    from noetl.tools.registry import KINDS

    if write and file == STDIN:
        raise UsageError("--write needs a file (got `-`, which is standard input)")
    migrated = migrate("<stdin>" if file == STDIN else file, read_file(file), KINDS)
    if migrated.failed:
        from noetl.cli.report import print_problems

        print_problems(migrated.leftovers or migrated.problems, stream=sys.stderr)
        click.echo(f"{file}: nothing was rewritten", err=True)
        ctx.exit(3)
    if not write:
        click.echo(migrated.text.encode(), nl=False)
    elif migrated.changed:
        replace(file, migrated.text.encode())
    click.echo(f"{file}: {'rewritten' if migrated.changed else 'is canonical already'}", err=True)


def replace(path: str, data: bytes) -> None:
    """Put new content into a file: readers see the old one or the new one, and its mode stays."""
    path = os.path.realpath(path)  # a link stays a link
    folder, name = os.path.split(path)
    handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    try:
        with open(handle, "wb") as file:
            os.fchmod(handle, stat.S_IMODE(os.stat(path).st_mode))
            file.write(data)
            file.flush()
            os.fsync(handle)
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
