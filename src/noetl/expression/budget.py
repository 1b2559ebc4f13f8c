"""How long, how large and how often: the bounds of one render.

The deadline is looked at on loop steps, calls and every few hundred elements inside filters. Whatever one
such piece of work makes is bounded by size, so the time between two looks is bounded too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Any

from noetl.expression.fault import Fault, OutOfBudget

SECONDS = 0.1
CHARACTERS = 1 << 20  # in any one string that an evaluation makes, and in its output
STEPS = 10_000  # iterations of all {% for %} loops together
ELEMENTS = 100_000  # in any one list that an evaluation makes
MEMORY = 16 << 20  # roughly bytes, in everything one evaluation makes, kept or not
INTEGER_BITS = 4096
DEPTH = 100  # of the nested lists and maps that are printed, compared or written as JSON
STRIDE = 256  # elements between two looks at the clock

_ELEMENT_COST = 32  # a slot in a list and the small object in it


class Budget:
    """What an evaluation may still use. Pass one to several evaluations to bound them together."""

    __slots__ = ("deadline", "memory", "steps")

    def __init__(self, seconds: float = SECONDS, steps: int = STEPS, memory: int = MEMORY) -> None:
        self.deadline = perf_counter() + seconds
        self.steps = steps
        self.memory = memory

    def check(self) -> None:
        """Raises when the time is over."""
        if perf_counter() > self.deadline:
            raise OutOfBudget("the template took too long", "move heavy work into a python or SQL task")

    def step(self) -> None:
        """Counts one iteration of a loop."""
        self.steps -= 1
        if self.steps < 0:
            raise OutOfBudget(
                f"the template loops more than {STEPS:,} times",
                "loop over large data in a step, not in a template",
            )
        self.check()

    def charge(self, size: int) -> None:
        """Takes `size` bytes, before they are made where that is possible."""
        self.memory -= size
        if self.memory < 0:
            raise OutOfBudget("the template makes too much data")

    def string(self, length: int) -> None:
        """Asks for a string of `length` characters before it is made."""
        if length > CHARACTERS:
            raise OutOfBudget(f"a text may have at most {CHARACTERS:,} characters, this one would have more")
        self.charge(length)

    def made(self, text: str) -> str:
        """Accounts for a string that exists already."""
        self.string(len(text))
        if not text.isascii():
            self.charge(3 * len(text))
        return text

    def elements(self, count: int) -> None:
        """Asks for a list of `count` elements before it is made."""
        if count > ELEMENTS:
            raise OutOfBudget(f"a list may have at most {ELEMENTS:,} elements, this one would have more")
        self.charge(count * _ELEMENT_COST)

    def each(self, values: Sequence[Any]) -> Iterator[Any]:
        """The values one by one, looking at the clock now and then."""
        for start in range(0, len(values), STRIDE):
            self.check()
            yield from values[start : start + STRIDE]


def bounded_int(value: int) -> int:
    """The number itself, if it is small enough to compute with."""
    if value.bit_length() > INTEGER_BITS:
        raise Fault(f"the number has more than {INTEGER_BITS} bits")
    return value
