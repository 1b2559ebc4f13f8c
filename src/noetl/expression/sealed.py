"""Secrets in templates: a template can pass them on, join them to other text and encode them, and nothing else.

Redaction finds secrets in results by their value and its usual encodings. It would not recognise the result of any
other operation. So inside a template a secret is `Sealed`: an opaque object that no operator, filter or test can read.
The allowed operations are defined here, and return another sealed value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from noetl.expression.budget import Budget
from noetl.expression.fault import Fault
from noetl.expression.missing import Contents, View

ENCODINGS = ("b64encode", "tojson", "urlencode")
"""Filters whose result redaction recognises."""
MESSAGE = "a secret can't be taken apart, changed or compared in a template"
HINT = f"pass it on as it is, join it to other text with ~, or encode it with {', '.join(ENCODINGS)}"


class Sealed(View):
    """A value that is or contains a secret."""

    __slots__ = ("content",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, content: Any) -> None:
        self.content = content

    def lookup(self, name: str | int, contents: Contents) -> Any:
        if isinstance(self.content, Mapping) and name in self.content:
            return Sealed(self.content[name])
        raise Fault(MESSAGE, HINT)

    def value(self, contents: Contents) -> NoReturn:
        raise Fault(MESSAGE, HINT)

    def passed(self, contents: Contents) -> Sealed:
        return self

    def __eq__(self, other: object) -> bool:
        raise Fault(MESSAGE, HINT)

    def __repr__(self) -> str:
        return "Sealed(***)"


def refuse_sealed(*values: Any) -> None:
    """Fault if one of the values is a secret. Call it before an operation that reads them."""
    for value in values:
        if type(value) is Sealed:
            raise Fault(MESSAGE, HINT)


def revealed(value: Any, contents: Contents) -> Any:
    """The value for a tool: unwraps a view or a secret. Does not descend into lists and maps."""
    if isinstance(value, View) and not isinstance(value, Sealed):
        value = value.value(contents)
    return value.content if isinstance(value, Sealed) else value


def encoding(call: Callable[..., Any]) -> Callable[..., Any]:
    """Make a filter accept secrets; its result is then sealed again."""

    def encode(budget: Budget, value: Any, *args: Any, **more: Any) -> Any:
        before = budget.memory
        is_secret = _holds_secret(value, budget)
        budget.memory = before  # nothing was made
        if not is_secret:
            return call(budget, value, *args, **more)
        return Sealed(call(budget, _revealed_inside(value, budget.contents), *args, **more))

    return encode


def _holds_secret(value: Any, budget: Budget) -> bool:
    """Whether a value is or contains a secret. Each element counts toward the budget: values may share parts."""
    if isinstance(value, View) and not isinstance(value, Sealed):
        plain = value.value(budget.contents)
        if plain is value:
            return False
        value = plain
    if isinstance(value, Mapping | list | tuple):
        inner = value.values() if isinstance(value, Mapping) else value
        budget.charge(8 * len(value))
        budget.check()
        return any(_holds_secret(item, budget) for item in inner)
    return isinstance(value, Sealed)


def _revealed_inside(value: Any, contents: Contents) -> Any:
    value = revealed(value, contents)
    if isinstance(value, Mapping):
        return {key: _revealed_inside(item, contents) for key, item in value.items()}
    return [_revealed_inside(item, contents) for item in value] if isinstance(value, list | tuple) else value
