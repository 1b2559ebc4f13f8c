"""Hiding secrets: CPU for a MB of text, in little and in much of it. Linear time is the same for both.

`python -m bench.redaction` runs it alone. Half of the secrets are tokens; the others are as hard as can be, without a
run of letters and digits that one could look for. The hostile texts are those that patterns like least.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

from bench.measure import Figure, print_figures
from noetl.keychain.redact import Redactor

MB = 1_000_000
LITTLE, MUCH = 1.5, 15.0
TRIES = 3
MOST = 1.5
"""Times what a MB takes in little text: a machine that others use gives and takes as much. Quadratic would be 10."""

chance = random.Random(4)


def secrets() -> list[str]:
    """Twenty of them."""
    tokens = [chance.randbytes(20).hex() for _ in range(10)]
    marks = ["".join(chance.choice('$%&/()=!?-"') for _ in range(12)) for _ in range(5)]
    dashed = ["-".join(f"{chance.randrange(100):02}" for _ in range(8)) for _ in range(5)]
    return [*tokens, *marks, *dashed]


def texts(known: list[str]) -> dict[str, Callable[[int], str]]:
    """Texts of a length, by what they are."""

    def lines(size: int) -> str:
        count = size // 60
        return "\n".join(f"row {number:07} {known[number % len(known)]:<44} end" for number in range(count))

    def of(unit: str) -> Callable[[int], str]:
        return lambda size: unit * (size // len(unit))

    return {
        "no secret": of("The quick brown fox jumps over the lazy dog, 0123456789 times.\n"),
        "a secret in each line": lines,
        "backslashes": of("\\"),
        "escaped quotes": of('\\"'),
        "per cent signs, quoted": of("%25"),
    }


def figures() -> Iterator[Figure]:
    known = secrets()
    redactor = Redactor(known)
    redactor.redact("\n".join(known))  # patterns are made when they are first needed
    yield Figure(f"redaction with {len(known)} secrets: CPU a MB in {LITTLE} MB, {MUCH:.0f} MB, and their ratio", "")
    for name, text in texts(known).items():
        little, much = (_cpu_of_a_mb(redactor, text, size) for size in (LITTLE, MUCH))
        shown = f"{little * 1e3:,.0f} {much * 1e3:,.0f} ms {much / little:.2f}"
        yield Figure(f"  {name}", shown, f"ratio at most {MOST}", much / little <= MOST)


def _cpu_of_a_mb(redactor: Redactor, text: Callable[[int], str], size: float) -> float:
    made = text(int(size * MB))
    shortest = float("inf")
    for _ in range(TRIES):
        start = time.process_time()
        redactor.redact(made)
        shortest = min(shortest, time.process_time() - start)
    return shortest / (len(made) / MB)


if __name__ == "__main__":
    print_figures(figures())
