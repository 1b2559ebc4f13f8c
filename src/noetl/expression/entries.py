"""Entries of the tables of filters, tests, functions and methods, and how these read their arguments.

An operation is a plain function `(budget, value, ...)` whose first docstring line is its entry in the reference. It
asks the budget for what it makes, before it makes it, and raises Fault with a message for the author.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from noetl.expression.budget import CHARACTERS, Budget
from noetl.expression.text import to_text
from noetl.expression.values import Fault, Missing, OutOfBudget, Undefined, kind_of, lookup, unwrapped

SLOW_TEXT = 1 << 16  # for work that Python does character by character
_PATH_PARTS = 32  # of attribute='a.b.c'
_PATH_CHARACTERS = 1024


class Entry(NamedTuple):
    """A filter, test, function or method: the callable and one line for the reference."""

    call: Callable[..., Any]
    doc: str

    @property
    def signature(self) -> str:
        """The parameters after the value, as in the reference: `(width, fill=None)`."""
        code, defaults = self.call.__code__, self.call.__defaults__ or ()
        names = code.co_varnames[2 : code.co_argcount]
        plain = len(names) - len(defaults)
        parameters = [n if i < plain else f"{n}={defaults[i - plain]!r}" for i, n in enumerate(names)]
        if code.co_flags & 0x04:
            parameters.append("...")  # *args
        return f"({', '.join(parameters)})"

    def refuses(self, positional: int, keywords: Sequence[str]) -> bool:
        """Whether a call with this number of arguments fails for any values."""
        code, defaults = self.call.__code__, self.call.__defaults__ or ()
        names = code.co_varnames[2 : code.co_argcount]
        if positional > len(names) and not code.co_flags & 0x04:  # no *args
            return True
        if not code.co_flags & 0x08 and not set(keywords) <= set(names[positional:]):  # no **kwargs
            return True
        return not set(names[positional : len(names) - len(defaults)]) <= set(keywords)


def entry(call: Callable[..., Any]) -> Entry:
    """An entry documented by the first line of the function's docstring."""
    return Entry(call, (call.__doc__ or "").split("\n")[0])


def entries_of(module: ModuleType) -> dict[str, Entry]:
    """Every public function and entry that a module defines; `_` behind a name keeps it apart from a builtin."""
    entries = {}
    for name, value in vars(module).items():
        if isinstance(value, FunctionType) and value.__module__ == module.__name__:
            value = entry(value)
        if isinstance(value, Entry) and not name.startswith("_"):
            entries[name.removesuffix("_")] = value
    return entries


def sequence(budget: Budget, value: Any) -> Sequence[Any]:
    """The elements of a list, the keys of a map, the characters of a string."""
    value = unwrapped(value, budget.contents)
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, Mapping | str):
        budget.elements(len(value))
        return list(value)
    if isinstance(value, Missing):
        raise Undefined(value)
    raise Fault(f"a list is needed here, not {kind_of(value)}")


def getter(budget: Budget, attribute: str | int | None) -> Callable[[Any], Any]:
    """How to get `a.b.0` out of an element."""
    contents = budget.contents
    if attribute is None:
        return lambda element: unwrapped(element, contents)
    if not isinstance(attribute, str | int):
        raise Fault(f"attribute is a name, not {kind_of(attribute)}")
    if isinstance(attribute, str) and (len(attribute) > _PATH_CHARACTERS or attribute.count(".") >= _PATH_PARTS):
        raise Fault(f"attribute may have at most {_PATH_PARTS} parts and {_PATH_CHARACTERS:,} characters")
    steps = [int(part) if part.isdecimal() and len(part) < 9 else part for part in str(attribute).split(".")]
    missing = Missing(str(attribute))

    def get(element: Any) -> Any:
        for step in steps:
            element = lookup(element, step, missing, contents)
        return unwrapped(element, contents)

    return get


def whole(value: Any, parameter: str, low: int = 0, high: int = CHARACTERS) -> int:
    if not isinstance(value, int) or not low <= value <= high:
        raise Fault(f"{parameter} must be a whole number from {low} to {high:,}")
    return int(value)


def string_of(value: Any, parameter: str) -> str:
    if not isinstance(value, str):
        raise Fault(f"{parameter} must be a string, not {kind_of(value)}")
    return value


def short_text(budget: Budget, value: Any) -> str:
    """The text of a value, for work that is slow per character."""
    text = to_text(value, budget)
    if len(text) > SLOW_TEXT:
        raise OutOfBudget(f"this filter takes at most {SLOW_TEXT:,} characters")
    return text


def bounded_text(budget: Budget, value: Any) -> str:
    text = to_text(value, budget)
    budget.string(len(text))
    return text


def changing(change: Callable[[str], str], doc: str) -> Entry:
    return Entry(lambda budget, value: budget.counted(change(bounded_text(budget, value))), doc)


def stripping(strip: Callable[[str, str | None], str], doc: str) -> Entry:
    def call(budget: Budget, value: Any, chars: Any = None) -> str:
        text = to_text(value, budget)
        if chars is not None:  # each character is compared with each of them
            budget.work(len(text) * len(string_of(chars, "chars")))
        return budget.counted(strip(text, chars))

    return Entry(call, doc)
