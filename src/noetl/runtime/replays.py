"""Replays of logs under other playbooks, in slices: a long one takes several requests."""

from __future__ import annotations

from functools import partial
from math import inf
from time import monotonic
from typing import Any, NamedTuple

import msgspec

from noetl.engine import events as e
from noetl.engine.history.replay import Difference, Replay
from noetl.engine.net import Net
from noetl.engine.state import Execution
from noetl.latest import Latest
from noetl.runtime.past import PastReader
from noetl.store.codec import decode
from noetl.store.store import Row

SLICE_SECONDS = 2.0
MAX_UNFINISHED = 8  # replays that are kept in memory for their next slice


class ReplayView(msgspec.Struct, frozen=True):
    """Whether a playbook decides like the log; null if there is more to compare after `scanned_to`."""

    equal: bool | None
    scanned_to: int
    first_difference: Difference | None = None


class ReplayKey(NamedTuple):
    execution: str
    text: bytes  # hash of the text of the playbook


class Replayer:
    """A replay in progress."""

    def __init__(self, past: PastReader, execution: str, net: Net) -> None:
        state = Execution(execution, net, net.playbook.digest)
        self.replay, self.seq, self.at = Replay(state, _requested_ctx(past, execution)), 0, 0.0

    def advance(self, past: PastReader, seconds: float = inf) -> ReplayView:
        """Compare for this many seconds, at least one event."""
        rows, until = past.rows(self.replay.state.id, self.seq), monotonic() + seconds
        row = next(rows, None)
        while row is not None:
            following = next(rows, None)
            take = partial(self.replay.take, decode(row.type, row.data), row.seq, row.at, reopened=_reopens(following))
            if (difference := past.evaluated(take)) is not None:
                return ReplayView(False, self.seq, difference)
            self.seq, self.at, row = row.seq, row.at, following
            if row is not None and monotonic() > until:
                return ReplayView(None, self.seq)
        difference = past.evaluated(partial(self.replay.end, self.seq, self.at))
        return ReplayView(difference is None, self.seq, difference)


def new_replays() -> Latest[ReplayKey, Replayer]:
    """For replays that have more to compare. One that is dropped begins again."""
    return Latest(MAX_UNFINISHED)


def _requested_ctx(past: PastReader, execution: str) -> dict[str, Any]:
    """The `ctx` of the request: the patch before the first token."""
    for row in past.rows(execution):
        event = decode(row.type, row.data)
        if isinstance(event, e.CtxPatched):
            return {key: value for key, _, value in event.patch}
        if isinstance(event, e.TokenEnqueued):
            break
    return {}


def _reopens(row: Row | None) -> bool:
    """Whether a loop is reopened here, so that it did not end with the event before."""
    if row is None or row.type != e.ExecutionForked.name:
        return False
    event = decode(row.type, row.data)
    return isinstance(event, e.ExecutionForked) and bool(event.reopened)
