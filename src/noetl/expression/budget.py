"""Bounds of evaluations: time, size and loops.

A `Budget` bounds one evaluation: its loops and the size of its values. An `Allowance` bounds the CPU time of
evaluations and the size of their values; each evaluation has one of its own, or several share one (all templates of a
decision do, by the budget under `BUDGET_KEY` in their scope).

The clock is read on loop steps, calls, comparisons of long values and every few hundred elements inside filters.
Whatever one such piece of work does is bounded by size, so the time between two readings is bounded too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter, thread_time
from typing import Any

from noetl.expression.values import CONTENTS_KEY, Contents, Fault, OutOfBudget

SECONDS = 0.1  # of CPU time
CHARACTERS = 1 << 20  # in any one string that an evaluation makes, and in its output
STEPS = 10_000  # iterations of all {% for %} loops together
ELEMENTS = 100_000  # in any one list that an evaluation makes
MEMORY = 16 << 20  # roughly bytes, in everything one evaluation makes, kept or not
VALUE_BYTES = 64 << 20  # roughly bytes that the value of an evaluation takes when it is stored
WORK = 1 << 26  # characters that one call into C may process
INTEGER_BITS = 4096
DEPTH = 100  # of the nested lists and maps that are printed, compared, stored or written as JSON
STRIDE = 256  # elements between two readings of the clock
LONG = 4096  # characters or elements; longer values check the clock first

DECISION_SECONDS = 0.2  # of CPU time, for all templates of one decision: others wait for it, 250 ms at most
DECISION_BYTES = 32 << 20  # of all their values
BUDGET_KEY = "budget of the decision"  # the scope's key for a Budget whose allowance its evaluations share

_ELEMENT_COST = 32  # a slot in a list and the small object in it
_UNCOUNTED_SECONDS = 0.02
_MESSAGES = ("the template took too long", "the value of the template is too large to be stored")
_DECISION_MESSAGES = (
    f"the templates of this decision used up the {DECISION_SECONDS * 1000:.0f} ms of CPU time they share",
    f"the values that the templates of this decision give are larger than {DECISION_BYTES >> 20} MiB together",
)
_HINT = "move heavy work into a python or SQL task"


class Allowance:
    """CPU time and bytes that evaluations may use together. The time counts between `start` and `stop`.

    It is CPU time of this thread, so that no evaluation fails because the machine is busy. Reading it is slow, and it
    never exceeds the time that passes: it is read only once that much time has passed, and the first 20 ms are
    measured by the ordinary clock.
    """

    __slots__ = ("_began", "_look_at", "_messages", "_uncounted", "bytes", "seconds")

    def __init__(self, seconds: float, size: int = VALUE_BYTES, messages: tuple[str, str] = _MESSAGES) -> None:
        self.seconds, self.bytes, self._messages = seconds, size, messages
        self._uncounted = _UNCOUNTED_SECONDS
        self._began: float | None = None
        self._look_at = 0.0

    def start(self) -> None:
        now = perf_counter()
        self._began = now if self._uncounted > 0 else thread_time()
        self._look_at = now + (min(self.seconds, self._uncounted) if self._uncounted > 0 else self.seconds)

    def stop(self) -> None:
        if self._began is None:
            return
        if self._uncounted > 0:
            spent = min(perf_counter() - self._began, self._uncounted)
            self._uncounted -= spent
        else:
            spent = thread_time() - self._began
        self.seconds -= spent
        self._began = None
        self._look_at = 0.0

    __enter__ = start

    def __exit__(self, *error: object) -> None:
        self.stop()

    def check(self) -> None:
        if perf_counter() > self._look_at:
            self.stop()
            if self.seconds <= 0:
                raise OutOfBudget(self._messages[0], _HINT)
            self.start()

    def store(self, size: int) -> None:
        self.bytes -= size
        if self.bytes < 0:
            raise OutOfBudget(self._messages[1], _HINT)


class Budget:
    """The remaining allowance of an evaluation, and the stored values that it can read. Pass one to several evaluations
    to bound them together."""

    __slots__ = ("_allowance", "contents", "memory", "steps")

    def __init__(self, allowance: Allowance | None = None, contents: Contents = None, steps: int = STEPS) -> None:
        self._allowance, self.contents, self.steps, self.memory = allowance, contents, steps, MEMORY

    @property
    def allowance(self) -> Allowance:
        """CPU time and bytes; the time counts from the first check."""
        if self._allowance is None:
            self._allowance = Allowance(SECONDS)
        return self._allowance

    def check(self) -> None:
        (self._allowance or self.allowance).check()

    def step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise OutOfBudget(
                f"the template loops more than {STEPS:,} times", "loop over large data in a step, not in a template"
            )
        self.check()

    def work(self, size: int) -> None:
        """Check the budget for one call into C that processes `size` characters or elements."""
        if size > LONG:
            if size > WORK:
                raise OutOfBudget("the strings are too long for this operation", _HINT)
            self.check()

    def charge(self, size: int) -> None:
        """Takes `size` bytes, before they are made where that is possible."""
        self.memory -= size
        if self.memory < 0:
            raise OutOfBudget("the template makes too much data")
        if size > LONG:
            self.check()

    def string(self, length: int) -> None:
        """Asks for a string of `length` characters before it is made."""
        if length > CHARACTERS:
            raise OutOfBudget(f"a text may have at most {CHARACTERS:,} characters, this one would have more")
        self.charge(length)

    def counted(self, text: str) -> str:
        """Accounts for a string that exists already."""
        self.string(len(text))
        if not text.isascii():
            self.charge(3 * len(text))
        return text

    def elements(self, count: int) -> None:
        if count > ELEMENTS:
            raise OutOfBudget(f"a list may have at most {ELEMENTS:,} elements, this one would have more")
        self.charge(count * _ELEMENT_COST)

    def each(self, values: Sequence[Any]) -> Iterator[Any]:
        """The values one by one, reading the clock now and then."""
        for start in range(0, len(values), STRIDE):
            self.check()
            yield from values[start : start + STRIDE]


def decision_budget() -> Budget:
    """For all templates of one decision: put it into their scope under BUDGET_KEY."""
    return Budget(allowance=Allowance(DECISION_SECONDS, DECISION_BYTES, _DECISION_MESSAGES))


def budget_in(scope: Mapping[str, Any]) -> Budget:
    shared: Budget | None = scope.get(BUDGET_KEY)
    return Budget(allowance=None if shared is None else shared.allowance, contents=scope.get(CONTENTS_KEY))


def bounded_int(value: int) -> int:
    if value.bit_length() > INTEGER_BITS:
        raise Fault(f"the number has more than {INTEGER_BITS} bits")
    return value
