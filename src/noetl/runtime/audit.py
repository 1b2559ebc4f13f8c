"""Verifies the stored logs of executions: streams each log through the invariants.

A log is append-only, so its rows are read in batches without locking the store. The derived rows are read first, in one
snapshot together with the number of the last row to check.

A large log is verified by two processes: one folds it, the other checks its rows and everything that needs no fold.
Each takes about half of the time. The second process is `python -m noetl.runtime.audit`: it reads a request from
standard input and writes the violations to standard output.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, MutableMapping
from contextlib import closing, suppress
from operator import attrgetter
from typing import NamedTuple

import msgspec

from noetl.classic.hooks import after_call_rules
from noetl.dsl.compile import load
from noetl.engine.events import ExecutionRequested
from noetl.engine.history.verify import CHECKS
from noetl.engine.history.verify.log import Frozen, LogReader, Part, StoredBlock, Violation
from noetl.engine.net import Net
from noetl.errors import NoetlError, NotFound
from noetl.latest import Latest
from noetl.results.read import read_content
from noetl.store import codec
from noetl.store.codec import PACKED_FORMAT, SNAPSHOT_FORMAT, digest_of, readable_snapshot, thaw
from noetl.store.open import open_store
from noetl.store.store import Row, Store, Summary
from noetl.tools.registry import KINDS

ROWS_PER_BATCH = 1_000
MAX_NETS = 64
LARGE = 200_000  # number of events above which a second process is faster


class AuditProgress(NamedTuple):
    events: int
    total: int


Batches = Generator[AuditProgress, None, list[Violation]]
Report = Callable[[AuditProgress], None]


class Unresolved(NoetlError):
    """The object store did not report whether a result exists."""


class Audit:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.nets: MutableMapping[str, Net] = Latest(MAX_NETS)

    def of(self, summary: Summary, report: Report | None = None, part: Part = "whole") -> list[Violation]:
        """The violations of an execution; `report` is called after each batch of events."""
        violations: list[Violation] = []

        def batches() -> Iterator[AuditProgress]:
            violations.extend((yield from self.batches(summary, part)))

        for progress in batches():
            if report is not None:
                report(progress)
        return violations

    def batches(self, summary: Summary, part: Part = "whole") -> Batches:
        """Verify an execution in batches of events. A running execution may grow meanwhile."""
        store, execution = self.store, summary.execution_id
        try:
            with store.read_snapshot():
                listed = store.summaries(prefix=execution, limit=1)
                if not listed:
                    return []  # removed meanwhile
                snapshots = store.snapshot_seqs(execution) if part != "rows" else []
                seq, derived = store.seq(execution), store.derived(execution)
            net, frozen = self._net(summary.digest), self._frozen(execution, snapshots)
            rows = self._read(execution, 0, seq)
            log = LogReader(
                CHECKS,
                execution,
                self._first_net(rows, net),
                codec,
                self._content,
                frozen,
                self._net,
                part,
                self._blocks(execution),
            )
        except (NoetlError, msgspec.MsgspecError) as error:
            return [Violation(execution, 0, "replay", f"the log cannot be checked: {error}")]
        try:
            while rows:
                log.take(rows)
                yield AuditProgress(min(log.seq, seq), seq)
                rows = self._read(execution, log.seq, seq)
        except Unresolved as error:
            return [Violation(execution, 0, "references", f"stored results cannot be checked: {error}")]
        if not store.summaries(prefix=execution, limit=1):
            return []  # removed meanwhile
        return log.end(listed[0].status, derived)

    def _frozen(self, execution: str, seqs: Iterable[int]) -> Iterator[Frozen]:
        """The snapshots of an execution, one at a time, without those that were removed meanwhile, and without those of
        other versions, which nobody reads."""
        for seq in seqs:
            stored = self.store.snapshot(execution, seq)
            if stored is None or stored.seq != seq or not stored.data.startswith((PACKED_FORMAT, SNAPSHOT_FORMAT)):
                continue
            state = None
            if (snapshot := readable_snapshot(stored)) is not None:
                with suppress(NoetlError, msgspec.MsgspecError):  # it is reported as unreadable
                    state = thaw(snapshot.data, self._net(digest_of(snapshot.data)), execution)
            yield Frozen(seq, stored.hash, state)

    def _blocks(self, execution: str) -> StoredBlock:
        def stored(number: int) -> bytes | None:
            blocks = self.store.outline(execution, number, 1)
            return blocks[0][1] if blocks and blocks[0][0] == number else None

        return stored

    def _read(self, execution: str, after: int, until: int) -> list[Row]:
        return self.store.read(execution, after, min(ROWS_PER_BATCH, until - after)) if after < until else []

    def _first_net(self, rows: list[Row], net: Net) -> Net:
        """The playbook at the start of the log; a fork may continue with another one."""
        try:
            requested = codec.decode(rows[0].type, rows[0].data) if rows else None
        except NoetlError:  # `verify` reports the invalid row
            return net
        return self._net(requested.playbook) if isinstance(requested, ExecutionRequested) else net

    def _net(self, digest: str) -> Net:
        if digest not in self.nets:
            stored = self.store.playbook(digest)
            if stored is None:
                raise NotFound(f"playbook {digest!r} not found")
            self.nets[digest] = Net(load(*stored, KINDS, stored=True).require(), after_call_rules)
        return self.nets[digest]

    def _content(self, store: str, key: str) -> bytes | None:
        try:
            return read_content(self.store.blob, store, key)
        except (NoetlError, OSError) as error:
            raise Unresolved(str(error)) from error


def missing_commits(store: Store) -> list[Violation]:
    """The violation of a store that lacks the last commit that was recorded."""
    missing = store.missing_commit()
    return [] if missing is None else [Violation(missing.execution, missing.seq, "last_commit", missing.message)]


def verify_large(db: str, store: Store, summary: Summary, report: Report | None) -> list[Violation]:
    command = [sys.executable, "-P", "-m", "noetl.runtime.audit"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdin is not None
            assert other.stdout is not None
            other.stdin.write(msgspec.json.encode([db, summary.execution_id]))  # no arguments: `db` may have a password
            other.stdin.close()
            violations = Audit(store).of(summary, report, "fold")
            output = other.stdout.read()
        finally:
            if other.poll() is None:
                other.kill() if sys.exc_info()[0] is not None else other.wait()
    if other.returncode != 0:
        raise NoetlError(f"the second verification process exited with code {other.returncode}")
    violations += msgspec.json.decode(output, type=list[Violation])
    return sorted(set(violations), key=attrgetter("seq"))


def main() -> None:
    gc.freeze()
    db, execution = msgspec.json.decode(sys.stdin.buffer.read())
    with closing(open_store(db, mode="read")) as store:
        listed = store.summaries(prefix=execution, limit=1)
        violations = Audit(store).of(listed[0], part="rows") if listed else []
    sys.stdout.buffer.write(msgspec.json.encode(violations))


if __name__ == "__main__":
    main()
