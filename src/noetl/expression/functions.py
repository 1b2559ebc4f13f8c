"""What a template may call: a few functions, and a few methods of strings, maps and lists.

A method is only ever the target of a call, never a value: it can't be stored, passed on or looked into.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from noetl.expression import filters
from noetl.expression.budget import ELEMENTS, Budget
from noetl.expression.fault import Fault
from noetl.expression.filters import Entry, entry
from noetl.expression.missing import Missing, kind_of
from noetl.expression.operators import equal
from noetl.expression.text import format_fields
from noetl.timestamps import rfc3339

NOW_KEY = "__now__"  # the scope's key for the time that now() returns; the engine has no clock of its own

Scope = Mapping[str, Any]


def range_(budget: Budget, scope: Scope, *args: Any) -> list[int]:
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


def dict_(budget: Budget, scope: Scope, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """A map from named arguments, or a copy of a map."""
    if len(args) > 1 or (args and not isinstance(args[0], Mapping)):
        raise Fault("dict takes a map and named arguments")
    copied: Mapping[str, Any] = args[0] if args else {}
    budget.elements(2 * (len(copied) + len(kwargs)))
    return {**copied, **kwargs}


def namespace(budget: Budget, scope: Scope, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Variables that survive a loop: {% set ns = namespace(n=0) %} ... {% set ns.n = ns.n + 1 %}."""
    return dict_(budget, scope, *args, **kwargs)


def now(budget: Budget, scope: Scope) -> str:
    """The time of the decision as RFC 3339 in UTC: 2026-03-01T12:00:00Z."""
    try:
        moment = scope[NOW_KEY]
    except KeyError:
        moment = None
    if isinstance(moment, int | float):
        moment = datetime.fromtimestamp(moment, UTC)
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise Fault("there is no time here")
    return rfc3339(moment, "auto")


FUNCTIONS: dict[str, Entry] = {
    "dict": entry(dict_),
    "namespace": entry(namespace),
    "now": entry(now),
    "range": entry(range_),
}


# --- methods of strings ------------------------------------------------------------------------------


def _predicate(name: str, method: Callable[[str], bool], doc: str) -> tuple[str, Entry]:
    def call(budget: Budget, value: str) -> bool:
        budget.work(len(value))
        return method(value)

    return name, Entry(call, doc)


def _ends(budget: Budget, value: str, options: Any, test: Callable[[str, Any], bool]) -> bool:
    affixes = options if isinstance(options, list | tuple) else (options,)
    for affix in budget.each(affixes):
        if not isinstance(affix, str):
            raise Fault("a string or a list of strings is needed")
        if test(value, affix):
            return True
    return False


def _startswith(budget: Budget, value: str, prefix: Any) -> bool:
    """Whether it starts with `prefix` (or one of several)."""
    return _ends(budget, value, prefix, str.startswith)


def _endswith(budget: Budget, value: str, suffix: Any) -> bool:
    """Whether it ends with `suffix` (or one of several)."""
    return _ends(budget, value, suffix, str.endswith)


def _lstrip(budget: Budget, value: str, chars: Any = None) -> str:
    """Without white space (or `chars`) at the start."""
    return filters.stripped(budget, value, chars, str.lstrip)


def _rstrip(budget: Budget, value: str, chars: Any = None) -> str:
    """Without white space (or `chars`) at the end."""
    return filters.stripped(budget, value, chars, str.rstrip)


def _rsplit(budget: Budget, value: str, separator: Any = None, maxsplit: Any = -1) -> list[str]:
    """The parts between separators, counted from the end."""
    filters.split(budget, value, separator, maxsplit)  # asks for the room and checks the arguments
    budget.work(len(value) * len(separator or ""))  # looking from the end compares the whole separator everywhere
    return value.rsplit(separator, maxsplit)


def _join(budget: Budget, value: str, parts: Any) -> str:
    """The elements of a list with this text between them."""
    return filters.join(budget, parts, value)


def _find(budget: Budget, value: str, part: Any) -> int:
    """The place of the first `part`, or -1."""
    budget.work(len(value))
    return value.find(_needle(part))


def _count(budget: Budget, value: str, part: Any) -> int:
    """How often `part` occurs."""
    budget.work(len(value))
    return value.count(_needle(part))


def _needle(part: Any) -> str:
    if not isinstance(part, str):
        raise Fault(f"can't search for {kind_of(part)} in a string")
    return part


def _padded(budget: Budget, width: Any, fill: Any) -> None:
    if not isinstance(width, int) or not isinstance(fill, str) or len(fill) != 1:
        raise Fault("a width and one character to fill with are needed")
    budget.string(max(width, 0))


def _ljust(budget: Budget, value: str, width: Any, fill: Any = " ") -> str:
    """Filled up to `width` at the end."""
    _padded(budget, width, fill)
    return value.ljust(width, fill)


def _rjust(budget: Budget, value: str, width: Any, fill: Any = " ") -> str:
    """Filled up to `width` at the start."""
    _padded(budget, width, fill)
    return value.rjust(width, fill)


def _center(budget: Budget, value: str, width: Any, fill: Any = " ") -> str:
    """Centred in `width` characters."""
    _padded(budget, width, fill)
    return value.center(width, fill)


def _zfill(budget: Budget, value: str, width: Any) -> str:
    """Filled up to `width` with zeros at the start."""
    _padded(budget, width, "0")
    return value.zfill(width)


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


def _keys(budget: Budget, value: Mapping[str, Any]) -> list[Any]:
    """The keys."""
    return filters.to_list(budget, value)


def _values(budget: Budget, value: Mapping[str, Any]) -> list[Any]:
    """The values."""
    return [element for _, element in filters.items(budget, value)]


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


METHODS: dict[str, dict[str, Entry]] = {
    "str": {
        "capitalize": entry(filters.capitalize),
        "center": entry(_center),
        "count": entry(_count),
        "endswith": entry(_endswith),
        "find": entry(_find),
        "format": entry(_format),
        "join": entry(_join),
        "ljust": entry(_ljust),
        "lower": entry(filters.lower),
        "lstrip": entry(_lstrip),
        "removeprefix": entry(filters.removeprefix),
        "removesuffix": entry(filters.removesuffix),
        "replace": entry(filters.replace),
        "rjust": entry(_rjust),
        "rsplit": entry(_rsplit),
        "rstrip": entry(_rstrip),
        "split": entry(filters.split),
        "splitlines": entry(filters.splitlines),
        "startswith": entry(_startswith),
        "strip": entry(filters.trim),
        "title": entry(_title),
        "upper": entry(filters.upper),
        "zfill": entry(_zfill),
    }
    | dict(
        (
            _predicate("isalnum", str.isalnum, "Only letters and digits."),
            _predicate("isalpha", str.isalpha, "Only letters."),
            _predicate("isdigit", str.isdigit, "Only digits."),
            _predicate("islower", str.islower, "Letters in lower case."),
            _predicate("isspace", str.isspace, "Only white space."),
            _predicate("isupper", str.isupper, "Letters in upper case."),
        )
    ),
    "dict": {
        "get": entry(_get),
        "items": entry(filters.items),
        "keys": entry(_keys),
        "values": entry(_values),
    },
    "list": {"count": entry(_count_of), "index": entry(_index)},
}

METHOD_NAMES = frozenset(name for methods in METHODS.values() for name in methods)


def method_of(value: Any, name: str) -> Entry:
    """The method `name` of a value of this kind, or a Fault."""
    kind = "str" if isinstance(value, str) else "dict" if isinstance(value, Mapping) else "list"
    known = METHODS[kind] if isinstance(value, str | Mapping | list | tuple) else {}
    if name not in known or isinstance(value, Missing):
        raise Fault(f"{kind_of(value)} has no method '{name}' that a template may call")
    return known[name]
