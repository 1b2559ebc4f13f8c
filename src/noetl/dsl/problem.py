"""Problems of a playbook: message, place and hint.

A `Check` is declared next to the code that applies it and has a stable code; a `Problem` is one finding of it. Every
check has a page in docs/reference/problems, with the examples from tests/checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Literal

import msgspec

from noetl.dsl.tree import Mark, Span, Text

Severity = Literal["error", "warning"]

MAX_PROBLEMS = 1_000
"""More errors, or warnings, than anybody reads; a hostile text could have millions."""
MAX_GUESSES = 100_000
"""How many names are compared with misspelt ones in one text."""
MAX_NAMES_IN_HINT = 12
MAX_STEPS_ON_PATH = 40
MAX_RANGE = 500
"""Characters of a range; a longer one is cut."""

_READ = re.compile(r"\w+(?:\.\w+|\[(?:'[^'\n]*'|\"[^\"\n]*\"|\d+)\])*")  # a name in a template, with its path
_WORD_HINT = re.compile(r"write `([\w-]+)`")

CHECKS: dict[str, Check] = {}
"""All checks by code, filled as the modules that declare them are imported (`noetl.dsl.checks` imports them all)."""


class Fix(msgspec.Struct, frozen=True):
    """The text to put in the place of the problem's range."""

    text: str


class FixHint(str):
    """A hint that names one replacement: `fix` makes it of the text in the problem's range, None if it cannot."""

    __slots__ = ("fix",)
    fix: Callable[[str], str | None]

    def __new__(cls, hint: str, fix: Callable[[str], str | None]) -> FixHint:
        self = super().__new__(cls, hint)
        self.fix = fix
        return self

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)


class FileHint(str):
    """A hint that ends with a command for the file of the playbook."""

    __slots__ = ("command",)
    command: tuple[str, ...]

    def __new__(cls, hint: str, *command: str) -> FileHint:
        self = super().__new__(cls, hint)
        self.command = command
        return self

    def for_file(self, file: str) -> str:
        from shlex import join

        return f"{self} `{join([*self.command, file])}`"


class Problem(msgspec.Struct, frozen=True):
    """A finding. Its range ends before `end_line` and `end_column`, which are 0 where nothing of the text is meant.
    `path` has the steps that lead to it, for problems of the net."""

    file: str
    line: int
    column: int
    code: str
    severity: Severity
    message: str
    hint: str | None = None
    source: str = ""
    end_line: int = 0
    end_column: int = 0
    path: tuple[str, ...] = ()
    fix: Fix | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.code} {self.message}"


class Check:
    """A check of the language. Declaring it registers it.

    Every error declares `stored_ok`: whether a stored playbook with it is compiled all the same. True for a check that
    is newer than the first version and that a playbook does not need to pass to be built: the runs of a playbook that
    was valid when it was stored must stay usable.
    """

    def __init__(self, code: str, severity: Severity, title: str, *, stored_ok: bool | None = None) -> None:
        if code in CHECKS:
            raise ValueError(f"{code} is declared twice")
        if (severity == "error") != (stored_ok is not None):
            raise ValueError(f"{code}: an error declares `stored_ok`, a warning does not")
        self.code, self.severity, self.title, self.stored_ok = code, severity, title, stored_ok is not False
        CHECKS[code] = self


class Problems:
    """Collects the problems of one text. All are reported at once, each finding once, up to a limit by severity."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self._problems: dict[tuple[Any, ...], Problem] = {}
        self._counts: dict[Severity, int] = {"error": 0, "warning": 0}
        self._guesses = MAX_GUESSES
        self._stored_ok = True

    def add(self, check: Check, where: Span | int, message: str, hint: str | None = None) -> None:
        """Report a problem of a node, or of the name at an offset."""
        if self._is_full(check):
            return
        start, end = (where, where) if isinstance(where, int) else (where.start, where.end)
        mark = self.text.mark(start)
        if end <= start:
            name = _READ.match(self.text.text, start, start + MAX_RANGE)
            end = name.end() if name else start + 1
        self._add(check, mark, self._within_line(mark, start, end), message, hint)

    def add_at(self, check: Check, mark: Mark, message: str, hint: str | None, path: Sequence[str] = ()) -> None:
        """Report a problem of the line of a mark, from there on."""
        if self._is_full(check):
            return
        start = self.text.offset(mark)
        end = self._within_line(mark, start, len(self.text.text))
        self._add(check, mark, end, message, hint, _shortened(path))

    def _is_full(self, check: Check) -> bool:
        """Whether the maximum number of problems is listed; this one still counts for `stored_ok`."""
        self._stored_ok = self._stored_ok and check.stored_ok
        return self._counts[check.severity] >= MAX_PROBLEMS

    def _within_line(self, mark: Mark, start: int, end: int) -> int:
        """The end of a range, which stays in its first line."""
        line_end = start + len(self.text.line(mark.line, MAX_RANGE + mark.column)) - mark.column + 1
        end = min(end, line_end)
        return start + len(self.text.text[start:end].rstrip())

    def _add(
        self, check: Check, mark: Mark, end: int, message: str, hint: str | None, path: tuple[str, ...] = ()
    ) -> None:
        message = message if len(message) <= 1000 else f"{message[:1000]}…"
        key = (mark, check.code, message)
        if key in self._problems:
            return
        self._counts[check.severity] += 1
        line, source = self.text.line(mark.line, 500), self.text.text[self.text.offset(mark) : end]
        self._problems[key] = Problem(
            self.text.file,
            *mark,
            check.code,
            check.severity,
            message,
            hint.for_file(self.text.file) if isinstance(hint, FileHint) else hint if hint is None else str(hint),
            line,
            mark.line,
            mark.column + len(source),
            path,
            _fix(hint, source),
        )

    def did_you_mean(self, name: object, *names: Collection[str]) -> FixHint | None:
        """A hint naming the closest known name, until so much was compared in this text that it would take seconds."""
        self._guesses -= sum(map(len, names))
        return did_you_mean(name, chain(*names)) if self._guesses >= 0 else None

    def count(self, severity: Severity = "error") -> int:
        return self._counts[severity]

    def stored_ok(self) -> bool:
        """Whether a stored playbook with these problems is compiled all the same."""
        return self._stored_ok

    def sorted(self) -> list[Problem]:
        return sorted(self._problems.values(), key=lambda p: (p.line, p.column, p.code, p.message))


def did_you_mean(name: object, names: Iterable[str]) -> FixHint | None:
    if not isinstance(name, str) or not name or len(name) > 64:
        return None
    from difflib import get_close_matches

    candidates = sorted({candidate for candidate in names if isinstance(candidate, str)})
    folded = {candidate.lower().replace("-", "_"): candidate for candidate in candidates}
    exact = folded.get(name.lower().replace("-", "_"))
    matches = [exact] if exact else get_close_matches(name, candidates, n=1, cutoff=0.7)
    if not matches and len(name) > 1:
        longer = [candidate for candidate in candidates if candidate.startswith(name)]
        matches = longer if len(longer) == 1 else []
    return renaming(f"did you mean {matches[0]!r}?", name, matches[0]) if matches else None


def renaming(hint: str, name: str, replacement: str) -> FixHint:
    """A hint to replace a name wherever it first occurs in the range."""

    def fix(source: str) -> str | None:
        if not replacement.isidentifier() and source.strip("'\"") != name:
            return None  # in a path such as `steps.name` it needs brackets
        renamed, count = re.subn(rf"(?<!\w){re.escape(name)}(?!\w)", lambda _: replacement, source, count=1)
        return renamed if count else None

    return FixHint(hint, fix)


def replacing(hint: str, replacement: str) -> FixHint:
    """A hint to replace the range as a whole."""
    return FixHint(hint, lambda source: replacement)


def _fix(hint: str | None, source: str) -> Fix | None:
    if hint is None or not source:
        return None
    if not isinstance(hint, FixHint):
        word = _WORD_HINT.fullmatch(hint)
        return Fix(word[1]) if word and re.fullmatch(r"[\w-]+", source) else None
    text = hint.fix(source)
    return None if text is None else Fix(text)


def _shortened(path: Sequence[str]) -> tuple[str, ...]:
    half = MAX_STEPS_ON_PATH // 2
    steps = tuple(dict.fromkeys(path))
    return steps if len(steps) <= MAX_STEPS_ON_PATH else (*steps[:half], *steps[-half:])


@lru_cache(maxsize=64)
def hint_names(names: Collection[str]) -> str:
    """The first of some names, for a hint. Pass a frozenset or tuple that is kept, not a new one each time."""
    return ", ".join(sorted(names)[:MAX_NAMES_IN_HINT]) + ", …" * (len(names) > MAX_NAMES_IN_HINT) or "none"
