"""What can be asked of an execution. Late and repeated commands are ordinary: they change nothing."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from noetl.engine.events import Event
from noetl.engine.net import Net
from noetl.model.outcome import Outcome


class Start(msgspec.Struct, frozen=True):
    """Begin."""

    payload: dict[str, Any] = {}
    ctx: dict[str, Any] = {}
    parent: tuple[str, str, int] | None = None
    refused: dict[str, Any] | None = None
    """Why the execution fails before its first step."""


class Claim(msgspec.Struct, frozen=True):
    """A worker asks for work."""

    worker: str
    slots: int = 1
    pool: str | None = None
    """The pool whose work it may do; None: of any."""
    id: str = ""
    """The worker's own name for the claim: who asks again, because no answer came, gets the same leases."""


class Report(msgspec.Struct, frozen=True):
    """A worker tells what happened under a lease, and may ask for more work with the same breath.

    `facts` are events that workers write. `hand_back` ends the lease of a lane early.
    """

    fence: int
    facts: tuple[Event, ...]
    first: int = 0
    """How many facts of the lease were told before these: what comes again, because no answer came, is passed over."""
    claim: Claim | None = None
    hand_back: bool = False
    blobs: tuple[tuple[str, bytes], ...] = ()
    """Content of references in the facts."""
    foreign: bool = False
    """Whether another process sent it. Its facts are then checked against the lease; our own worker is trusted."""


class Lost(msgspec.Struct, frozen=True):
    """The worker that held a lease is gone."""

    fence: int


class TimerDue(msgspec.Struct, frozen=True):
    """A timer's time has come."""

    timer: str


class Signal(msgspec.Struct, frozen=True):
    """A message from outside."""

    type: str
    id: str
    payload: Any = None


class ChildEnded(msgspec.Struct, frozen=True):
    """A child execution has ended."""

    child: str
    outcome: Outcome


class Fork(msgspec.Struct, frozen=True):
    """Go on alone. The state is that of another execution after one of its events."""

    source_id: str
    source_seq: int
    since: float
    """When that event happened."""
    net: Net | None = None
    """An edited playbook to go on with."""
    digest: str = ""
    payload: dict[str, Any] = {}
    """What the source was requested with, for the workload of an edited playbook."""
    ctx: dict[str, Any] = {}
    retry: str | None = None
    """The run that failed, or nothing in particular; None: this is no retry."""


class Cancel(msgspec.Struct, frozen=True):
    """Stop for good."""

    reason: str = ""


class Pause(msgspec.Struct, frozen=True):
    """Hand out nothing new."""


class Resume(msgspec.Struct, frozen=True):
    """Go on after a pause."""


class Abandon(msgspec.Struct, frozen=True):
    """End an execution as failed: what follows from another command could not be decided."""

    error: dict[str, Any]
    report: Report | None = None
    """The report that could not be decided: its facts happened, and belong in the log."""
    final: bool = True
    """Whether the final step still runs."""


Command: TypeAlias = (
    Start | Claim | Report | Lost | TimerDue | Signal | ChildEnded | Fork | Cancel | Pause | Resume | Abandon
)
