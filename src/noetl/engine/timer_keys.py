"""Timers by purpose, with the names under which they are stored."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


class ExecutionTimeout(NamedTuple):
    """The time limit of the execution."""

    @property
    def name(self) -> str:
        return "timeout"


class RunTimeout(NamedTuple):
    """The time limit of a step run."""

    run: str

    @property
    def name(self) -> str:
        return f"timeout:{self.run}"


class WaitLimit(NamedTuple):
    """How long a parked run or item waits."""

    run: str
    item: int
    """Its index, or WHOLE_RUN."""

    @property
    def name(self) -> str:
        return f"wait:{self.run}:{self.item}"


class StepTimer(NamedTuple):
    """One of `spec.timers` of a classic step."""

    run: str
    timer: str

    @property
    def name(self) -> str:
        return f"timer:{self.run}:{self.timer}"


class TokenDelay(NamedTuple):
    """A token on an arc that delays it."""

    token: int

    @property
    def name(self) -> str:
        return f"token:{self.token}"


class MoreFirings(NamedTuple):
    """More transitions are enabled; the next decision fires them."""

    @property
    def name(self) -> str:
        return "more"


Timer: TypeAlias = ExecutionTimeout | RunTimeout | WaitLimit | StepTimer | TokenDelay | MoreFirings


def timer_of(name: str) -> Timer:
    """The timer of a stored name."""
    kind, _, rest = name.partition(":")
    owner, _, last = rest.rpartition(":")
    match kind:
        case "timeout":
            return RunTimeout(rest) if rest else ExecutionTimeout()
        case "wait":
            return WaitLimit(owner, int(last))
        case "timer":
            return StepTimer(owner, last)
        case "token":
            return TokenDelay(int(rest))
    return MoreFirings()
