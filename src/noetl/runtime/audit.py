"""Verifies the stored logs of executions: streams each log through the invariants.

A log is append-only, so its rows are read in batches without locking the store. The derived rows are read first, in one
snapshot together with the number of the last row to check.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple

import msgspec

from noetl.classic.hooks import after_call_rules
from noetl.dsl.compile import load
from noetl.engine.events import ExecutionRequested
from noetl.engine.history.verify import Frozen, Log, Part, Violation
from noetl.engine.net import Net
from noetl.errors import NoetlError, NotFound
from noetl.results.read import read_content
from noetl.store import codec
from noetl.store.snapshot import readable, thaw
from noetl.store.store import Derived, Row, Snapshot, Store, Summary
from noetl.tools.registry import KINDS

BATCH = 1_000
"""Rows per batch."""
NETS = 64
"""Number of compiled playbooks cached for the next executions."""


class AuditProgress(NamedTuple):
    """Number of events checked, and of all events."""

    events: int
    total: int


Batches = Generator[AuditProgress, None, list[Violation]]
Report = Callable[[AuditProgress], None]


class Unresolved(NoetlError):
    """The object store did not report whether a result exists."""


class _Stored(NamedTuple):
    """The rows of an execution, read in one snapshot of the store."""

    seq: int
    status: str
    snapshot: Snapshot | None
    derived: Derived


class Audit:
    """Verifies executions of one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.nets: dict[str, Net] = {}

    def of(self, summary: Summary, report: Report | None = None, part: Part = "whole") -> list[Violation]:
        """The violations of an execution; `report` is called after each batch of events."""
        batches = self.batches(summary, part)
        while True:
            try:
                progress = next(batches)
            except StopIteration as stop:
                violations: list[Violation] = stop.value
                return violations
            if report is not None:
                report(progress)

    def batches(self, summary: Summary, part: Part = "whole") -> Batches:
        """Verify an execution in batches of events. A running execution may grow meanwhile."""
        execution = summary.execution_id
        try:
            stored = self._stored(execution)
            if stored is None:
                return []  # removed meanwhile
            log, rows = self._begin(summary, stored, part)
        except (NoetlError, msgspec.MsgspecError) as error:
            return [Violation(execution, 0, "replay", f"the log cannot be checked: {error}")]
        try:
            while rows:
                log.take(rows)
                yield AuditProgress(min(log.seq, stored.seq), stored.seq)
                rows = self._read(execution, log.seq, stored.seq)
        except Unresolved as error:
            return [Violation(execution, 0, "references", f"stored results cannot be checked: {error}")]
        if not self.store.summaries(prefix=execution, limit=1):
            return []  # removed meanwhile
        return log.end(stored.status, stored.derived)

    def _stored(self, execution: str) -> _Stored | None:
        """None if the execution does not exist."""
        store = self.store
        with store.read_snapshot():
            listed = store.summaries(prefix=execution, limit=1)
            if not listed:
                return None
            snapshot = readable(store.snapshot(execution))
            return _Stored(store.seq(execution), listed[0].status, snapshot, store.derived(execution))

    def _begin(self, summary: Summary, stored: _Stored, part: Part) -> tuple[Log, list[Row]]:
        """The checks, and the first rows."""
        execution, net = summary.execution_id, self._net(summary.digest)
        snapshot, frozen = stored.snapshot, None
        if snapshot is not None and part != "rows":
            frozen = Frozen(snapshot.seq, snapshot.hash, thaw(snapshot.data, net))
        rows = self._read(execution, 0, stored.seq)
        first_net = self._first(rows, summary.digest)
        return Log(execution, first_net, codec, self._content, frozen, self._net, part), rows

    def _read(self, execution: str, after: int, until: int) -> list[Row]:
        return self.store.read(execution, after, min(BATCH, until - after)) if after < until else []

    def _first(self, rows: list[Row], digest: str) -> Net:
        """The playbook at the start of the log; a fork may continue with another one."""
        try:
            requested = codec.decode(rows[0].type, rows[0].data) if rows else None
        except NoetlError:  # `verify` reports the invalid row
            requested = None
        return self._net(requested.playbook if isinstance(requested, ExecutionRequested) else digest)

    def _net(self, digest: str) -> Net:
        if digest not in self.nets:
            stored = self.store.playbook(digest)
            if stored is None:
                raise NotFound("its playbook is not in the store")
            if len(self.nets) >= NETS:
                del self.nets[next(iter(self.nets))]
            self.nets[digest] = Net(load(*stored, KINDS).require(), after_call_rules)
        return self.nets[digest]

    def _content(self, store: str, key: str) -> bytes | None:
        try:
            return read_content(self.store.blob, store, key)
        except (NoetlError, OSError) as error:
            raise Unresolved(str(error)) from error
