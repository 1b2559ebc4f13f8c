"""Base class of the checks, and the sets of integers that they keep."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from noetl.engine import events as e
from noetl.engine.net import Net
from noetl.model.identity import step_of
from noetl.model.playbook import Loop

if TYPE_CHECKING:
    from noetl.engine.history.verify.log import Log

Handler = Callable[[Any], object]
Handlers = Mapping[type[e.Event], Handler]


class LogCheck:
    """One invariant. `handlers` maps event types to handlers; a subclass of an event is handled like its base."""

    name: ClassVar[str]
    part: ClassVar[Literal["rows", "fold"]] = "rows"
    """`fold` if it reads the state."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.runs: dict[str, Any] = {}
        """Data of each step run, dropped when the run ends."""

    def handlers(self) -> Handlers:
        raise NotImplementedError

    def end(self) -> None:
        """Called after the last event."""

    def fail(self, message: str) -> None:
        self.log.note(self.name, message)

    def drop_run(self, event: Any) -> None:
        self.runs.pop(event.run, None)

    def drop_all(self, event: Any) -> None:
        self.runs.clear()


def loop_of(net: Net, run: str) -> Loop | None:
    """The loop of a run's step, if the step is known and has one."""
    plan = net.steps.get(step_of(run))
    return plan.step.loop if plan is not None else None


class Intervals:
    """A set of integers, stored as the fewest intervals: its memory is proportional to its gaps, not to its members."""

    __slots__ = ("_ends", "_starts", "count")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self.count = 0

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._starts, number)
        return place > 0 and number < self._ends[place - 1]

    def add(self, number: int) -> bool:
        """Add a number; False if it was already present."""
        starts, ends = self._starts, self._ends
        place = bisect_right(starts, number)
        if place and number < ends[place - 1]:
            return False
        self.count += 1
        follows = place > 0 and ends[place - 1] == number
        precedes = place < len(starts) and starts[place] == number + 1
        if follows and precedes:
            ends[place - 1] = ends.pop(place)
            del starts[place]
        elif follows:
            ends[place - 1] += 1
        elif precedes:
            starts[place] = number
        else:
            starts.insert(place, number)
            ends.insert(place, number + 1)
        return True

    @property
    def gaps(self) -> int:
        return len(self._starts)
