"""Every execution of every test is verified when the test ends, wherever it ran.

In this process: every `Runtime` that was made since a test (or a module, or the whole run) began is remembered, and all
executions in its store are verified. In other processes: every database in the test's folder is. A test that damages a
log, or makes the engine misbehave, says so with `@pytest.mark.damaged_log("why")`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from noetl.engine.history.verify import CHECKS
from noetl.engine.history.verify.log import LogReader, Violation
from noetl.engine.history.verify.rows import Load
from noetl.engine.net import Net
from noetl.errors import NotFound, StoreError
from noetl.runtime.audit import Audit, Unresolved
from noetl.runtime.runtime import Runtime
from noetl.store import codec
from noetl.store.postgres import PostgresStore
from noetl.store.sqlite import SqliteStore
from noetl.store.store import Derived, Row, Store

ALL = 1_000_000
UNKNOWN_KIND = "NTL202 unknown tool kind"
"""The log of a playbook that uses a plug-in cannot be read where the plug-in is not installed."""
OUTSIDE = "its object store is not that of this process"
"""An object store is found by the environment of the process that wrote to it. No other is asked."""

MANY = 64
"""Runtimes that wait for their verification; beyond that, those that have stopped are verified at once."""


def verify(
    execution: str,
    rows: Iterable[Row],
    net: Net,
    load: Load | None = None,
    status: str | None = None,
    derived: Derived | None = None,
    **options: Any,
) -> list[Violation]:
    """Every violation in a log, of which `net` is the first playbook."""
    log = LogReader(CHECKS, execution, net, codec, load, **options)
    log.take(rows)
    return log.end(status, derived)


class Scope:
    """A test, a module or the whole run: what was made in it and is not verified yet."""

    def __init__(self) -> None:
        self.runtimes: list[Runtime] = []
        self.violations: list[Violation] = []

    def add(self, runtime: Runtime) -> None:
        self.runtimes.append(runtime)
        if len(self.runtimes) > MANY:
            stopped = [runtime for runtime in self.runtimes if runtime.thread._shutdown]
            self.runtimes = [runtime for runtime in self.runtimes if not runtime.thread._shutdown]
            self.violations += violations_of(stopped)


scopes: list[Scope] = [Scope()]
"""The innermost is the last."""


def remember_runtimes() -> None:
    """From now on every runtime that is made belongs to a scope."""
    made = Runtime.__init__

    def remembered(self: Runtime, *args: Any, **options: Any) -> None:
        made(self, *args, **options)
        scopes[-1].add(self)

    Runtime.__init__ = remembered  # type: ignore[method-assign]


@contextmanager
def verified(damaged: bool = False) -> Iterator[None]:
    """Verify the executions of all runtimes that are made inside."""
    scope = Scope()
    scopes.append(scope)
    try:
        yield
    finally:
        scopes.remove(scope)
    if not damaged:
        check([*scope.violations, *violations_of(scope.runtimes)])


def check(violations: Iterable[Violation]) -> None:
    lines = [
        f"{violation.execution_id}.{violation.seq}: {violation.invariant}: {violation.message}"
        for violation in violations
    ]
    assert not lines, "the log of an execution breaks invariants:\n" + "\n".join(lines)


def violations_of(made: list[Runtime]) -> Iterator[Violation]:
    """Violations in the stores of runtimes, each store once."""
    nets = known_nets(made)
    for store in {id(runtime.store): runtime.store for runtime in made}.values():
        with reopened(store) as readable:
            if readable is not None:
                yield from violations_in(readable, nets)


def known_nets(made: list[Runtime]) -> dict[str, Net]:
    """By digest: not every test stores the text of its playbooks."""
    return {digest: net for runtime in made for digest, net in runtime.playbooks.cache.in_memory.items()}


def violations_in(store: Store, nets: dict[str, Net]) -> Iterator[Violation]:
    audit = KnowingAudit(store, nets)
    for summary in store.summaries(limit=ALL):
        for violation in audit.of(summary):
            if OUTSIDE not in violation.message and UNKNOWN_KIND not in violation.message:
                yield violation


class KnowingAudit(Audit):
    """Knows playbooks that were never stored."""

    def __init__(self, store: Store, known: dict[str, Net]) -> None:
        super().__init__(store)
        self.known = known

    def _content(self, store: str, key: str) -> bytes | None:
        if store == "object":
            raise Unresolved(OUTSIDE)
        return super()._content(store, key)

    def _net(self, digest: str) -> Net:
        return self.known[digest] if digest in self.known else super()._net(digest)


@contextmanager
def reopened(store: Store) -> Iterator[Store | None]:
    """The store, which its runtime may have closed; None if its database is gone. Postgres is looked at earlier."""
    if isinstance(store, PostgresStore):
        yield None
    elif isinstance(store, SqliteStore):
        with opened(store.path) as readable:
            yield readable
    else:
        yield store


@contextmanager
def opened(path: Path) -> Iterator[SqliteStore | None]:
    """None for what is gone, is something else, or can't be read by intention."""
    try:
        store = SqliteStore(path, mode="read")
    except StoreError:
        yield None
        return
    try:
        yield store
    finally:
        store.close()


def check_databases(folder: Path) -> None:
    """Verify the executions of every database in a folder."""
    for path in sorted(folder.rglob("*.db")):
        with opened(path) as store:
            if store is not None:
                check(violations_in(store, known_nets(scopes[-1].runtimes)))


def check_postgres(address: str) -> None:
    """Verify the executions in Postgres, if there is a store of ours."""
    try:
        store = PostgresStore(address, mode="read")
    except (StoreError, NotFound):
        return
    try:
        check(violations_in(store, known_nets(scopes[-1].runtimes)))
    finally:
        store.close()


def is_damaged(test: pytest.Item) -> bool:
    """Whether a test breaks invariants on purpose."""
    return test.get_closest_marker("damaged_log") is not None
