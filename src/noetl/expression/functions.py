"""What a template may call: a few functions, and a few methods of strings, maps and lists.

A method is only ever the target of a call, never a value: it can't be stored, passed on or looked into.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from noetl.expression import text_filters, value_filters
from noetl.expression.budget import ELEMENTS, Budget
from noetl.expression.entries import Entry, entry, stripping
from noetl.expression.fault import Fault
from noetl.expression.filters import FILTERS
from noetl.expression.missing import kind_of
from noetl.expression.operators import equal
from noetl.expression.text import format_fields
from noetl.timestamps import rfc3339

NOW_KEY = "__now__"  # the scope's key for the time that now() returns; the engine has no clock of its own

Scope = Mapping[str, Any]


def _range(budget: Budget, scope: Scope, *args: Any) -> list[int]:
    """The whole numbers from start to before stop: `range(5)`, `range(10, 0, -1)`."""
    if not 1 <= len(args) <= 3 or not all(isinstance(arg, int) for arg in args):
        raise Fault("range takes one to three whole numbers")
    if len(args) == 3 and args[2] == 0:
        raise Fault("the step of a range can't be 0")
    numbers = range(*args)
    try:
        count = len(numbers)
    except OverflowError:
        count = ELEMENTS + 1
    budget.elements(count)
    return list(numbers)


def _dict(budget: Budget, scope: Scope, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """A map from named arguments, or a copy of a map."""
    if len(args) > 1 or (args and not isinstance(args[0], Mapping)):
        raise Fault("dict takes a map and named arguments")
    copied: Mapping[str, Any] = args[0] if args else {}
    budget.elements(2 * (len(copied) + len(kwargs)))
    return {**copied, **kwargs}


def _now(budget: Budget, scope: Scope) -> str:
    """The time of the decision as RFC 3339 in UTC: 2026-03-01T12:00:00Z."""
    try:
        moment = scope[NOW_KEY]
    except KeyError:
        moment = None
    if isinstance(moment, int | float):
        moment = datetime.fromtimestamp(moment, UTC)
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise Fault("now() is not available here")
    return rfc3339(moment, "auto")


FUNCTIONS: dict[str, Entry] = {
    "dict": entry(_dict),
    "namespace": Entry(
        _dict, "Variables that survive a loop: {% set ns = namespace(n=0) %} ... {% set ns.n = ns.n + 1 %}."
    ),
    "now": entry(_now),
    "range": entry(_range),
}


# --- methods of strings ------------------------------------------------------------------------------


def _predicate(method: Callable[[str], bool], doc: str) -> Entry:
    def call(budget: Budget, value: str) -> bool:
        budget.work(len(value))
        return method(value)

    return Entry(call, doc)


def _search(method: Callable[[str, str], int], doc: str) -> Entry:
    def call(budget: Budget, value: str, part: Any) -> int:
        budget.work(len(value))
        if not isinstance(part, str):
            raise Fault(f"can't search for {kind_of(part)} in a string")
        return method(value, part)

    return Entry(call, doc)


def _padding(method: Callable[[str, int, str], str], doc: str) -> Entry:
    def call(budget: Budget, value: str, width: Any, fill: Any = " ") -> str:
        if not isinstance(width, int) or not isinstance(fill, str) or len(fill) != 1:
            raise Fault("a width and one character to fill with are needed")
        budget.string(max(width, 0))
        return method(value, width, fill)

    return Entry(call, doc)


def _zfill(budget: Budget, value: str, width: Any) -> str:
    """Filled up to `width` with zeros at the start."""
    if not isinstance(width, int):
        raise Fault("a width is needed")
    budget.string(max(width, 0))
    return value.zfill(width)


def _has_affix(budget: Budget, value: str, options: Any, test: Callable[[str, str], bool]) -> bool:
    affixes = options if isinstance(options, list | tuple) else (options,)
    for affix in budget.each(affixes):
        if not isinstance(affix, str):
            raise Fault("a string or a list of strings is needed")
        if test(value, affix):
            return True
    return False


def _startswith(budget: Budget, value: str, prefix: Any) -> bool:
    """Whether it starts with `prefix` (or one of several)."""
    return _has_affix(budget, value, prefix, str.startswith)


def _endswith(budget: Budget, value: str, suffix: Any) -> bool:
    """Whether it ends with `suffix` (or one of several)."""
    return _has_affix(budget, value, suffix, str.endswith)


def _rsplit(budget: Budget, value: str, separator: Any = None, maxsplit: Any = -1) -> list[str]:
    """The parts between separators, counted from the end."""
    text_filters.split(budget, value, separator, maxsplit)  # asks for the room and checks the arguments
    budget.work(len(value) * len(separator or ""))  # looking from the end compares the whole separator everywhere
    return value.rsplit(separator, maxsplit)


def _join(budget: Budget, value: str, parts: Any) -> str:
    """The elements of a list with this text between them."""
    return value_filters.join(budget, parts, value)


def _title(budget: Budget, value: str) -> str:
    """Each word with a capital."""
    budget.string(len(value))
    return budget.made(value.title())


def _format(budget: Budget, value: str, *args: Any, **kwargs: Any) -> str:
    """Fills {} and {name} fields; no attributes or items inside the braces."""
    try:
        return format_fields(value, args, kwargs, budget)
    except (ValueError, TypeError) as error:
        raise Fault(f"the format string does not fit: {error}") from None


# --- methods of maps and lists -----------------------------------------------------------------------


def _values(budget: Budget, value: Mapping[str, Any]) -> list[Any]:
    """The values."""
    return [element for _, element in value_filters.items(budget, value)]


def _get(budget: Budget, value: Mapping[Any, Any], key: Any, default: Any = None) -> Any:
    """The value of a key, or `default`."""
    return value[key] if isinstance(key, str | int | float | None) and key in value else default


def _index(budget: Budget, value: list[Any], element: Any) -> int:
    """The place of the first equal element."""
    for place, other in enumerate(budget.each(value)):
        if equal(other, element, budget):
            return place
    raise Fault("the list does not have this element")


def _count_of(budget: Budget, value: list[Any], element: Any) -> int:
    """How many elements are equal to this one."""
    return sum(equal(other, element, budget) for other in budget.each(value))


_SHARED = ("capitalize", "lower", "removeprefix", "removesuffix", "replace", "split", "splitlines", "upper")
METHODS: dict[str, dict[str, Entry]] = {
    "str": {
        **{name: FILTERS[name] for name in _SHARED},
        "center": _padding(str.center, "Centred in `width` characters."),
        "count": _search(str.count, "How often `part` occurs."),
        "endswith": entry(_endswith),
        "find": _search(str.find, "The place of the first `part`, or -1."),
        "format": entry(_format),
        "isalnum": _predicate(str.isalnum, "Only letters and digits."),
        "isalpha": _predicate(str.isalpha, "Only letters."),
        "isdigit": _predicate(str.isdigit, "Only digits."),
        "islower": _predicate(str.islower, "Letters in lower case."),
        "isspace": _predicate(str.isspace, "Only white space."),
        "isupper": _predicate(str.isupper, "Letters in upper case."),
        "join": entry(_join),
        "ljust": _padding(str.ljust, "Filled up to `width` at the end."),
        "lstrip": stripping(str.lstrip, "Without white space (or `chars`) at the start."),
        "rjust": _padding(str.rjust, "Filled up to `width` at the start."),
        "rsplit": entry(_rsplit),
        "rstrip": stripping(str.rstrip, "Without white space (or `chars`) at the end."),
        "startswith": entry(_startswith),
        "strip": FILTERS["trim"],
        "title": entry(_title),
        "zfill": entry(_zfill),
    },
    "dict": {
        "get": entry(_get),
        "items": FILTERS["items"],
        "keys": Entry(value_filters.list_, "The keys."),
        "values": entry(_values),
    },
    "list": {"count": entry(_count_of), "index": entry(_index)},
}
METHOD_NAMES = frozenset(name for methods in METHODS.values() for name in methods)


def method_of(value: Any, name: str) -> Entry:
    """The method `name` of a value of this kind, or a Fault."""
    kind = "str" if isinstance(value, str) else "dict" if isinstance(value, Mapping) else "list"
    methods = METHODS[kind] if isinstance(value, str | Mapping | list | tuple) else {}
    if name not in methods:
        raise Fault(f"{kind_of(value)} has no method '{name}' that a template may call")
    return methods[name]
