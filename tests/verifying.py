"""Every execution of every test is verified when the test ends, wherever it ran.

In this process: every `Runtime` that was made since a test (or a module, or the whole run) began is remembered, and all
executions in its store are verified. In other processes: every database in the test's folder is. A test that damages a
log, or makes the engine misbehave, says so with `@pytest.mark.damaged_log("why")`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from noetl.engine.net import Net
from noetl.engine.verify import Violation
from noetl.errors import StoreError
from noetl.runtime.audit import Audit
from noetl.runtime.runtime import Runtime
from noetl.store.ports import Store
from noetl.store.postgres import PostgresStore
from noetl.store.sqlite import SqliteStore

ALL = 1_000_000
MAGIC = b"SQLite format 3\0"

runtimes: list[Runtime] = []
"""Those of this process that nobody has verified yet."""


def remember_runtimes() -> None:
    """From now on `runtimes` has all that are made."""
    made = Runtime.__init__

    def remembered(self: Runtime, *args: Any, **options: Any) -> None:
        made(self, *args, **options)
        runtimes.append(self)

    Runtime.__init__ = remembered  # type: ignore[method-assign]


@contextmanager
def verified(damaged: bool = False) -> Iterator[None]:
    """Verify the executions of all runtimes that are made inside."""
    before = len(runtimes)
    yield
    made = runtimes[before:]
    del runtimes[before:]
    if not damaged:
        check(violations_of(made))


def check(violations: Iterable[Violation]) -> None:
    lines = [f"{one.execution_id}.{one.seq}: {one.invariant}: {one.message}" for one in violations]
    assert not lines, "the log of an execution breaks invariants:\n" + "\n".join(lines)


def violations_of(made: list[Runtime]) -> Iterator[Violation]:
    """Violations in the stores of runtimes, each store once."""
    nets = {digest: net for runtime in made for digest, net in runtime.nets.items()}
    for store in {id(runtime.store): runtime.store for runtime in made}.values():
        with reopened(store) as readable:
            if readable is not None:
                yield from violations_in(readable, nets)


def violations_in(store: Store, nets: dict[str, Net]) -> Iterator[Violation]:
    audit = KnowingAudit(store, nets)
    for summary in store.summaries(limit=ALL):
        yield from audit.of(summary)


class KnowingAudit(Audit):
    """Knows playbooks that were never stored."""

    def __init__(self, store: Store, known: dict[str, Net]) -> None:
        super().__init__(store)
        self.known = known

    def _net(self, digest: str) -> Net:
        return self.known[digest] if digest in self.known else super()._net(digest)


@contextmanager
def reopened(store: Store) -> Iterator[Store | None]:
    """The store, which its runtime may have closed; None if its database is gone."""
    if not isinstance(store, SqliteStore | PostgresStore):
        yield store
        return
    try:
        readable = SqliteStore.open_existing(store.path) if isinstance(store, SqliteStore) else store.again()
    except (StoreError, OSError):
        yield None
        return
    try:
        yield readable
    finally:
        readable.close()


def check_databases(folder: Path) -> None:
    """Verify the executions of every database in a folder."""
    for path in databases(folder):
        try:
            store = SqliteStore.open_existing(path)
        except StoreError:  # something else's
            continue
        try:
            check(violations_in(store, {}))
        finally:
            store.close()


def databases(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place) / name
            if name.endswith(".db") and path.is_file() and is_sqlite(path):
                yield path


def is_sqlite(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC
