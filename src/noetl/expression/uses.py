"""What a template reads and uses, for the validator; and what an expression compiles to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from noetl.expression.shape import Path

Scope = Mapping[str, Any]
Closure = Callable[[Scope, Any], Any]
"""The value of an expression; the second argument is the Run, None if the template is simple."""


class Read(NamedTuple):
    """A value that a template takes from its scope, by the longest path that is known beforehand.

    `guarded`: the template copes with its absence (default, `is defined`, left of `or`).
    """

    path: Path
    offset: int
    guarded: bool


class Use(NamedTuple):
    """A filter, test or function by name."""

    name: str
    offset: int


class Unknown(NamedTuple):
    """A filter, test, function or method that does not exist. `kind` is one of these words."""

    kind: str
    name: str
    offset: int


class Comparison(NamedTuple):
    """A path compared with string constants by ==, !=, in or not in."""

    path: Path
    op: str
    values: tuple[str, ...]
    offset: int
