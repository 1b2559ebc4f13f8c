"""Commands to an execution. Late and repeated commands change nothing."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from noetl.engine.events import Event
from noetl.engine.net import Net
from noetl.model.actor import Actor
from noetl.model.outcome import Outcome


class Start(msgspec.Struct, frozen=True):
    payload: dict[str, Any] = {}
    ctx: dict[str, Any] = {}
    parent: tuple[str, str, int] | None = None
    refused: dict[str, Any] | None = None  # Why the execution fails before its first step
    actor: Actor | None = None
    warnings: tuple[str, ...] = ()  # Warnings about the payload


class Claim(msgspec.Struct, frozen=True):
    worker: str
    slots: int = 1
    pool: str | None = None  # The pool that the worker belongs to; None takes work of any pool
    id: str = ""  # The worker's name for the claim: repeated because no response came, it returns the same leases


class Report(msgspec.Struct, frozen=True):
    """The facts that a worker reports under a lease, with a claim for more work. `hand_back` ends the lease."""

    fence: int
    facts: tuple[Event, ...]
    first: int = 0
    """Number of facts reported before these: facts that are repeated because no response came are skipped."""
    claim: Claim | None = None
    hand_back: bool = False
    blobs: tuple[tuple[str, bytes], ...] = ()  # Content of references in the facts
    foreign: bool = False  # Whether another process sent it: its facts are then checked against the lease
    grant: str | None = None
    """The id of the claim that the lease was granted to. A restored database grants the same fences again, to other
    claims. None if the sender does not know it."""


class Lost(msgspec.Struct, frozen=True):
    """The worker that holds a lease sends no heartbeat any more."""

    fence: int


class TimerDue(msgspec.Struct, frozen=True):
    timer: str


class Signal(msgspec.Struct, frozen=True):
    """A message from outside."""

    type: str
    id: str
    payload: Any = None
    keep: bool = True
    """Whether it is kept until a run waits for it; if not, it counts only for a run that waits already."""
    actor: Actor | None = None


class ChildEnded(msgspec.Struct, frozen=True):
    child: str
    outcome: Outcome


class Fork(msgspec.Struct, frozen=True):
    """Fork from another execution, whose state after one of its events is the state."""

    source_id: str
    source_seq: int
    since: float  # When that event happened
    net: Net | None = None  # An edited playbook
    digest: str = ""
    payload: dict[str, Any] = {}  # The payload of the source, with the values that were set
    sets_payload: bool = False
    ctx: dict[str, Any] = {}
    retry: str | None = None  # The run that failed, empty if there is none; None if this is not a retry
    reopen: str = ""  # The run of a finished loop whose failed items run again
    actor: Actor | None = None
    warnings: tuple[str, ...] = ()  # Warnings about the payload, if it or the playbook was changed


class Cancel(msgspec.Struct, frozen=True):
    reason: str = ""
    actor: Actor | None = None


class Pause(msgspec.Struct, frozen=True):
    """Grant no work until Resume."""

    actor: Actor | None = None


class Resume(msgspec.Struct, frozen=True):
    """End a pause."""

    actor: Actor | None = None


class Abandon(msgspec.Struct, frozen=True):
    """End an execution as failed, because another command could not be decided."""

    error: dict[str, Any]
    report: Report | None = None  # The report that could not be decided: its facts belong in the log
    final: bool = True  # Whether the final step runs


Command: TypeAlias = (
    Start | Claim | Report | Lost | TimerDue | Signal | ChildEnded | Fork | Cancel | Pause | Resume | Abandon
)
