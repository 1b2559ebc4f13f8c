"""noetl verify [RUN]: prove that logs keep what the engine promises."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from noetl.cli.local import ALL, opened, pick
from noetl.cli.output import emit, output_option
from noetl.cli.place import Place, place_option
from noetl.dsl.compile import load
from noetl.engine.net import Net
from noetl.engine.verify import Frozen, Violation, verify
from noetl.errors import NoetlError, NotFound, UsageError
from noetl.store import codec
from noetl.store.ports import Store, Summary
from noetl.store.snapshot import thaw
from noetl.tools.registry import KINDS


@click.command("verify")
@click.argument("run", metavar="[RUN]", required=False)
@place_option
@output_option()
@click.pass_context
def command(ctx: click.Context, run: str | None, place: Place, output: str | None) -> None:
    """Check the log of a run, or of all runs, against every invariant. Exits with 1 if one does not hold."""
    if place.server is not None:
        raise UsageError("a server is verified at its database: `noetl verify --db URL`, also while it runs")
    with opened(place.db) as store:
        chosen = [pick(store, run)] if run is not None else store.summaries(limit=ALL)
        audit = Audit(store)
        found = [violation for one in chosen for violation in audit.of(one)]
    if output is not None:
        emit({"executions": len(chosen), "violations": found}, output)
    else:
        _tell(len(chosen), found)
    ctx.exit(1 if found else 0)


def _tell(executions: int, found: list[Violation]) -> None:
    for one in found:
        click.echo(f"{one.execution_id}.{one.seq}: {click.style(one.invariant, fg='red', bold=True)}: {one.message}")
    verdict = f"{len(found):,} violation{'s' * (len(found) != 1)}" if found else click.style("sound", fg="green")
    click.echo(f"{executions:,} execution{'s' * (executions != 1)}: {verdict}", err=True)


class Audit:
    """Checks executions of one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.nets: dict[str, Net] = {}

    def of(self, one: Summary) -> list[Violation]:
        """What is wrong with an execution. One that is alive moves on while it is looked at."""
        execution = one.execution_id
        try:
            net = self._net(one.digest)
            with self.store.moment():
                snapshot = self._snapshot(execution, net)
                rows = self.store.read(execution)
                derived = self.store.derived(execution)
                (now,) = self.store.summaries(prefix=execution)
        except (NoetlError, msgspec.MsgspecError) as error:
            return [Violation(execution, 0, "replay", f"it can't be looked at: {error}")]
        return verify(execution, rows, net, codec, self._content, now.status, snapshot, derived)

    def _snapshot(self, execution: str, net: Net) -> Frozen | None:
        found = self.store.snapshot(execution)
        return None if found is None else Frozen(found.seq, found.hash, thaw(found.data, net))

    def _net(self, digest: str) -> Net:
        if digest not in self.nets:
            stored = self.store.playbook(digest)
            if stored is None:
                raise NotFound("its playbook is not in the store")
            self.nets[digest] = Net(load(*stored, KINDS).require())
        return self.nets[digest]

    def _content(self, store: str, key: str) -> bytes | None:
        if store != "file":
            return self.store.blob(key)
        file = Path(key)
        return file.read_bytes() if file.is_file() else None
