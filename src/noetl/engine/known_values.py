"""Reported values against those that the server can derive from the playbook itself.

The server derives a value if it depends only on data that no worker of the run can change: literals, `workload`,
`args`, `ctx`, the item of the loop. If a template reads more (a task's outcome, the clock, the result of a step that
may just have ended), the server accepts the reported value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from noetl.errors import TemplateError
from noetl.expression import Budget, parse, render
from noetl.reference import Need, Reference
from noetl.scope import Scope

HIDDEN = "***"  # The text with which workers replace a secret
STABLE = frozenset(["workload", "args", "args_by", "ctx", "iter", "execution_id"])
"""Names whose values are the same for the worker and for the server."""


class KnownValues(NamedTuple):
    """Names that have the same value for a task and the server. A missing name cannot be derived."""

    scope: Scope
    budget: Budget  # Shared by all templates of a report. Values beyond it are not derived.

    def with_args(self, own: Any) -> KnownValues:
        """The same for the inputs of a task, which see its own args too."""
        args = {**self.scope["args"], **own} if isinstance(own, dict) else self.scope["args"]
        return KnownValues(Scope(self.scope, args=args), self.budget)

    def value(self, source: str) -> Any:
        """The value of a template; UNKNOWN if only the worker knows it."""
        template = parse(source)
        if template.is_constant:
            return source
        names = {read.path[0] for read in template.reads}
        timed = any(use.name == "now" for use in template.functions)
        if timed or not all(name in STABLE and name in self.scope for name in names):
            return UNKNOWN
        try:
            with self.budget.allowance:
                return render(source, self.scope, self.budget)
        except (TemplateError, Need):  # stored values are not loaded for this
            return UNKNOWN


class UnknownValue:
    """A value that only the worker knows."""


UNKNOWN = UnknownValue()


def fits(written: Any, reported: Any, values: KnownValues) -> bool:
    """Whether a reported value equals the value of the playbook, as far as that can be derived."""
    if isinstance(written, str):
        return _agrees(values.value(written), reported)
    if isinstance(written, dict):
        return isinstance(reported, dict) and _match(written, reported, lambda value, other: fits(value, other, values))
    if isinstance(written, list | tuple):
        same = isinstance(reported, list | tuple) and len(reported) == len(written)
        return same and all(fits(value, other, values) for value, other in zip(written, reported, strict=True))
    return _agrees(written, reported)


def fits_text(written: Any, reported: Any, values: KnownValues) -> bool:
    """The same for an input that may be converted on its way: `"3"` is version 3."""
    expected = values.value(written) if isinstance(written, str) else written
    return _agrees(expected, reported) or (reported is not None and _agrees(str(expected), str(reported)))


def _agrees(expected: Any, reported: Any) -> bool:
    """Whether the values are equal, apart from values stored elsewhere and from secrets that the worker has hidden."""
    if isinstance(expected, UnknownValue | Reference):
        return True
    if isinstance(reported, str) and HIDDEN in reported:
        parts = reported.split(HIDDEN)
        return reported == HIDDEN or (isinstance(expected, str) and _in_order(parts, expected))
    if isinstance(expected, dict) and isinstance(reported, dict):
        return _match(expected, reported, _agrees)
    if isinstance(expected, list | tuple) and isinstance(reported, list | tuple):
        pairs = zip(expected, reported, strict=False)
        return len(expected) == len(reported) and all(_agrees(value, other) for value, other in pairs)
    return bool(expected == reported)


def _match(expected: dict[str, Any], reported: dict[str, Any], same: Callable[[Any, Any], bool]) -> bool:
    """Whether maps have the same keys, apart from those in which a secret is hidden, with the same values."""
    plain = [key for key in reported if HIDDEN not in key]
    as_many = len(reported) == len(expected) or len(plain) < len(reported) < len(expected)
    return as_many and all(key in expected and same(expected[key], reported[key]) for key in plain)


def _in_order(parts: Sequence[str], text: str) -> bool:
    """Whether the text consists of these parts in this order, with anything between them."""
    first, *middle, last = parts
    if not (text.startswith(first) and text.endswith(last) and len(text) >= len(first) + len(last)):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        place = text.find(part, at, end)
        if place < 0:
            return False
        at = place + len(part)
    return True
