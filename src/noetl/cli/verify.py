"""noetl verify [RUN]: prove that logs keep what the engine promises."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from noetl.cli.local import ALL, opened, pick
from noetl.cli.output import emit, output_option
from noetl.cli.place import Place, place_option
from noetl.printable import printable
from noetl.runtime.audit import Audit
from noetl.settings import ServerAddress


@click.command("verify")
@click.argument("run", metavar="[RUN]", required=False)
@place_option
@output_option()
@click.pass_context
def command(ctx: click.Context, run: str | None, place: Place, output: str | None) -> None:
    """Check the log of a run, or of all runs, against every invariant. Exits with 1 if one does not hold."""
    executions, found = _here(run, place.db) if place.server is None else _there(run, place.server)
    if output is not None:
        emit({"executions": executions, "violations": found}, output)
    else:
        _tell(executions, found)
    ctx.exit(1 if found else 0)


def _here(run: str | None, db: str | None) -> tuple[int, list[dict[str, Any]]]:
    with opened(db) as store:
        chosen = [pick(store, run)] if run is not None else store.summaries(limit=ALL)
        audit = Audit(store)
        return len(chosen), [msgspec.to_builtins(violation) for one in chosen for violation in audit.of(one)]


def _there(run: str | None, address: ServerAddress) -> tuple[int, list[dict[str, Any]]]:
    """The server reads its own database; page by page, so that no answer is waited for too long."""
    from noetl.cli.remote import LONG, server

    with server(address) as remote:
        if run is not None:
            answer = remote.get(f"/executions/{remote.pick(run)}/verify", timeout=LONG)
            return answer["executions"], answer["violations"]
        executions, found, cursor = 0, [], None
        while True:
            page = remote.get("/verify", timeout=LONG, cursor=cursor)
            executions += page["executions"]
            found += page["violations"]
            cursor = page["next"]
            if cursor is None:
                return executions, found


def _tell(executions: int, found: list[dict[str, Any]]) -> None:
    for one in found:
        name = click.style(one["invariant"], fg="red", bold=True)
        click.echo(f"{one['execution_id']}.{one['seq']}: {name}: {printable(one['message'])}")
    verdict = f"{len(found):,} violation{'s' * (len(found) != 1)}" if found else click.style("sound", fg="green")
    click.echo(f"{executions:,} execution{'s' * (executions != 1)}: {verdict}", err=True)
