"""Timers by purpose, with the names under which they are stored."""

from __future__ import annotations

from typing import ClassVar

import msgspec


class Timer(msgspec.Struct, frozen=True):
    form: ClassVar[str] = ""

    @property
    def name(self) -> str:
        return self.form.format(*msgspec.structs.astuple(self))


class ExecutionTimeout(Timer, frozen=True):
    form = "timeout"


class RunTimeout(Timer, frozen=True):
    form = "timeout:{}"
    run: str


class WaitLimit(Timer, frozen=True):
    """How long a parked run or item waits."""

    form = "wait:{}:{}"
    run: str
    item: int  # Its index, or WHOLE_RUN


class StepTimer(Timer, frozen=True):
    """One of `spec.timers` of a classic step."""

    form = "timer:{}:{}"
    run: str
    timer: str


class TokenDelay(Timer, frozen=True):
    """A token on an arc that delays it."""

    form = "token:{}"
    token: int


class MoreFirings(Timer, frozen=True):
    """More transitions are enabled; the next decision fires them."""

    form = "more"


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
