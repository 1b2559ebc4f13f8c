"""What the runtime asks of a store: a few verbs, each with its promise.

The log is the truth. Everything else in a store can be derived from it or is content that the log refers to.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import msgspec


class Row(NamedTuple):
    """One event as it is stored."""

    seq: int
    type: str
    at: float
    data: bytes
    hash: bytes


class Summary(msgspec.Struct, frozen=True):
    """An execution as lists show it; written when its status changes."""

    execution_id: str
    name: str
    path: str
    status: str
    started: float
    ended: float | None = None
    digest: str = ""
    parent: str | None = None


class Leased(NamedTuple):
    """Work in a worker's hands."""

    run: str
    worker: str
    since: float


class Change(msgspec.Struct):
    """What one decision writes, all or nothing. `expected` is the seq the log must be at."""

    execution: str
    expected: int
    rows: list[Row]
    summary: Summary | None = None
    blobs: list[tuple[str, bytes]] = []
    snapshot: bytes | None = None
    """The state after the last row."""
    ready: dict[str, str | None] = {}
    """Runs that workers of a pool may take; None: no longer."""
    leases: dict[int, Leased | None] = {}
    """Leases by fence; None: over."""
    timers: dict[str, float | None] = {}
    """When each timer is due; None: it is gone."""


class Derived(msgspec.Struct, frozen=True):
    """What the store keeps of an execution beside its log, so that work can be found without folding: each is a part
    of the fold, written in the transaction of the events that changed it."""

    ready: dict[str, str] = {}
    leases: dict[int, Leased] = {}
    timers: dict[str, float] = {}


class Snapshot(NamedTuple):
    """A stored state: of which seq, the hash of that row, and the state's bytes."""

    seq: int
    hash: bytes
    data: bytes


class SealedCredential(msgspec.Struct, frozen=True):
    """A credential as it is stored. `paths` and `pools` are patterns of who may use it; none means all."""

    name: str
    kind: str
    sealed: bytes
    created: float
    updated: float
    paths: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()


class Credentials(Protocol):
    """Sealed credentials by name. What is inside of them, a store can't know."""

    def all(self) -> list[SealedCredential]:
        """Every credential, by name."""

    def get(self, name: str) -> SealedCredential | None:
        """The credential of that name."""

    def put(self, credential: SealedCredential) -> None:
        """Keep it in the place of what had its name, but remember when that was created."""

    def reseal(self, name: str, before: bytes, after: bytes) -> bool:
        """Exchange the sealed bytes; False, and nothing done, if they are not as they were."""

    def delete(self, name: str) -> bool:
        """Forget it; False if there was none."""


LogLine = tuple[str, str, float, str, str]
"""Output of a task: execution, task, time, stream, line."""


def check_gapless(changes: Sequence[Change]) -> None:
    """Rows must follow `expected` one by one; anything else is a mistake of the caller, and nothing is written."""
    for change in changes:
        rows = change.rows
        if rows and not rows[0].seq - 1 == change.expected == rows[-1].seq - len(rows):
            raise ValueError(f"the rows of {change.execution} do not follow seq {change.expected}")


class Store(Protocol):
    """A store. Its methods block; the runtime calls them in a thread of its own."""

    def commit(self, changes: Sequence[Change]) -> list[bool]:
        """Write all changes in one transaction and make them durable.

        False for a change whose log was not at `expected`: nothing of it is written, the others are.
        """

    def read(self, execution: str, after: int = 0, limit: int | None = None) -> list[Row]:
        """The events of an execution in order, without gaps."""

    def snapshot(self, execution: str) -> Snapshot | None:
        """The latest stored state of an execution."""

    def moment(self) -> AbstractContextManager[None]:
        """What is read inside is as of one moment, whatever others write meanwhile."""

    def derived(self, execution: str) -> Derived:
        """The rows of ready work, leases and timers."""

    def seq(self, execution: str) -> int:
        """How many events an execution has; 0 if there is none."""

    def summaries(self, *, status: str | None = None, prefix: str = "", limit: int = 1000) -> list[Summary]:
        """Executions, newest first."""

    def put_playbook(self, digest: str, file: str, text: bytes) -> None:
        """Keep the text of a playbook; the same digest is kept once."""

    def playbook(self, digest: str) -> tuple[str, bytes] | None:
        """File name and text of a playbook."""

    def blob(self, key: str) -> bytes | None:
        """Stored content."""

    def log(self, lines: Sequence[LogLine]) -> None:
        """Keep output of tasks."""

    def logs(self, execution: str, after: int = 0) -> list[tuple[int, str, float, str, str]]:
        """Output of tasks in order: number, task, time, stream, line."""

    @property
    def credentials(self) -> Credentials:
        """The credentials beside the log."""

    def changed(self) -> bool:
        """Whether another process has written since this was last asked."""

    def close(self) -> None:
        """Give everything back."""
