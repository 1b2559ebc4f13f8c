"""What is wrong with a playbook, where, and what to do about it.

A `Check` is declared next to the code that applies it and has a stable code; a `Problem` is one finding of it. Every
check has a page in docs/reference/problems, with the examples from tests/checks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from itertools import chain
from typing import Any, Literal

import msgspec

from noetl.dsl.tree import Mark, Span, Text

Severity = Literal["error", "warning"]

MAX_PROBLEMS = 10_000
"""More errors, or warnings, than anybody reads; a hostile text could have millions."""
MAX_GUESSES = 100_000
"""How many names are compared with misspelt ones in one text."""
MAX_NAMES_IN_HINT = 12

CHECKS: dict[str, Check] = {}
"""All checks by code, filled as the modules that declare them are imported (`noetl.dsl.checks` imports them all)."""


class Problem(msgspec.Struct, frozen=True):
    file: str
    line: int
    column: int
    code: str
    severity: Severity
    message: str
    hint: str | None = None
    source: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.code} {self.message}"


class Check:
    """A check of the language. Declaring it registers it."""

    def __init__(self, code: str, severity: Severity, title: str) -> None:
        if code in CHECKS:
            raise ValueError(f"{code} is declared twice")
        self.code, self.severity, self.title = code, severity, title
        CHECKS[code] = self


class Problems:
    """Collects the problems of one text. All are reported at once, each finding once, up to a limit by severity."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self._problems: dict[tuple[Any, ...], Problem] = {}
        self._counts: dict[Severity, int] = {"error": 0, "warning": 0}
        self._guesses = MAX_GUESSES

    def add(self, check: Check, where: Span | int, message: str, hint: str | None = None) -> None:
        self.add_at(check, self.text.mark(where if isinstance(where, int) else where.start), message, hint)

    def add_at(self, check: Check, mark: Mark, message: str, hint: str | None = None) -> None:
        message = message if len(message) <= 1000 else f"{message[:1000]}…"
        key = (mark, check.code, message)
        if key in self._problems or self._counts[check.severity] >= MAX_PROBLEMS:
            return
        self._counts[check.severity] += 1
        line = self.text.line(mark.line, 500)
        self._problems[key] = Problem(self.text.file, *mark, check.code, check.severity, message, hint, line)

    def did_you_mean(self, name: object, *names: Collection[str]) -> str | None:
        """A hint naming the closest known name, until so much was compared in this text that it would take seconds."""
        self._guesses -= sum(map(len, names))
        return did_you_mean(name, chain(*names)) if self._guesses >= 0 else None

    def count(self, severity: Severity = "error") -> int:
        return self._counts[severity]

    def sorted(self) -> list[Problem]:
        return sorted(self._problems.values(), key=lambda p: (p.line, p.column, p.code, p.message))


def did_you_mean(name: object, names: Iterable[str]) -> str | None:
    if not isinstance(name, str) or not name or len(name) > 64:
        return None
    from difflib import get_close_matches

    candidates = sorted({candidate for candidate in names if isinstance(candidate, str)})
    folded = {candidate.lower().replace("-", "_"): candidate for candidate in candidates}
    exact = folded.get(name.lower().replace("-", "_"))
    matches = [exact] if exact else get_close_matches(name, candidates, n=1, cutoff=0.7)
    return f"did you mean {matches[0]!r}?" if matches else None


@lru_cache(maxsize=64)
def few(names: Collection[str]) -> str:
    """The first of some names, for a hint. Pass a frozenset or tuple that is kept, not a new one each time."""
    return ", ".join(sorted(names)[:MAX_NAMES_IN_HINT]) + ", …" * (len(names) > MAX_NAMES_IN_HINT) or "none"
