"""Proving the stored logs of executions: reads what a store has of one, and hands it to the invariants."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.dsl.compile import load
from noetl.engine.events import ExecutionRequested
from noetl.engine.net import Net
from noetl.engine.verify import Frozen, Violation, verify
from noetl.errors import NoetlError, NotFound
from noetl.results.read import found
from noetl.store import codec
from noetl.store.ports import Row, Store, Summary
from noetl.store.snapshot import thaw
from noetl.tools.registry import KINDS


class Unresolved(NoetlError):
    """A store of large results does not say whether it has one."""


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
                known = self.store.summaries(prefix=execution)
            begun_with = self._first(rows, one.digest)
        except (NoetlError, msgspec.MsgspecError) as error:
            return [Violation(execution, 0, "replay", f"it can't be looked at: {error}")]
        if not known:
            return []  # removed meanwhile
        status = known[0].status
        try:
            return verify(execution, rows, begun_with, codec, self._content, status, snapshot, derived, self._net)
        except Unresolved as error:
            return [Violation(execution, 0, "references", f"they can't be looked at: {error}")]

    def _first(self, rows: Sequence[Row], digest: str) -> Net:
        """The playbook that the log begins with; a fork may go on with another one."""
        try:
            requested = codec.decode(rows[0].type, rows[0].data) if rows else None
        except NoetlError:  # `verify` tells what is wrong with the row
            requested = None
        return self._net(requested.playbook if isinstance(requested, ExecutionRequested) else digest)

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
        try:
            return found(self.store, store, key)
        except (NoetlError, OSError) as error:
            raise Unresolved(str(error)) from error
