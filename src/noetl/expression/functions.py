"""The tables of what a template may use: tests, filters, functions and methods.

A filter is never called with a missing value (the result is then missing too), except `default`. A test of a missing
value is false, but for `undefined` and `ne`. A method is only ever the target of a call, never a value: it cannot be
stored, passed on or looked into.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from noetl.expression import text_filters, value_filters
from noetl.expression.budget import ELEMENTS, Budget
from noetl.expression.entries import Entry, changing, entries_of, entry, getter, sequence, stripping
from noetl.expression.nodes import Scope
from noetl.expression.operators import COMPARISONS, contains, equal
from noetl.expression.text import format_fields
from noetl.expression.values import NOTHING, Fault, Missing, clipped, kind_of, unwrapped
from noetl.timestamps import rfc3339

NOW_KEY = "__now__"  # the scope's key for the time that now() returns; the engine has no clock of its own


# --- tests


def _integer(value: Any) -> int:
    if not isinstance(value, int):
        raise Fault(f"a whole number is needed here, not {kind_of(value)}")
    return int(value)


def _text_test(test: Callable[[str], bool], doc: str) -> Entry:
    def call(budget: Budget, value: Any) -> bool:
        if not isinstance(value, str):
            return False
        budget.work(len(value))
        return test(value)

    return Entry(call, doc)


def sameas(budget: Budget, value: Any, other: Any) -> bool:
    """The same null, true or false; for other values, equal and of one type."""
    if value is None or other is None or isinstance(value, bool) or isinstance(other, bool):
        return value is other
    return type(value) is type(other) and equal(value, other, budget)


def _comparison(symbol: str, doc: str) -> Entry:
    compare = COMPARISONS[symbol]
    return Entry(lambda budget, value, other: compare(value, other, budget), doc)


_NE = _comparison("!=", "Not equal to `other`.")
_UNDEFINED = Entry(lambda budget, value: isinstance(value, Missing), "The value does not exist.")
_SEQUENCE = Entry(
    lambda budget, value: isinstance(value, list | tuple | str | Mapping),
    "A list, a text or a map: something with a length.",
)
TESTS: dict[str, Entry] = {
    **dict.fromkeys(("==", "eq", "equalto"), _comparison("==", "Equal to `other`.")),
    **dict.fromkeys(("!=", "ne"), _NE),
    **dict.fromkeys(("<", "lt", "lessthan"), _comparison("<", "Less than `other`.")),
    **dict.fromkeys(("<=", "le"), _comparison("<=", "Less than or equal to `other`.")),
    **dict.fromkeys((">", "gt", "greaterthan"), _comparison(">", "Greater than `other`.")),
    **dict.fromkeys((">=", "ge"), _comparison(">=", "Greater than or equal to `other`.")),
    **dict.fromkeys(("iterable", "sequence"), _SEQUENCE),
    "boolean": Entry(lambda budget, value: isinstance(value, bool), "true or false."),
    "defined": Entry(lambda budget, value: not isinstance(value, Missing), "The value exists."),
    "divisibleby": Entry(lambda budget, value, num: _integer(value) % _integer(num) == 0, "Divisible by `num`."),
    "even": Entry(lambda budget, value: _integer(value) % 2 == 0, "An even number."),
    "false": Entry(lambda budget, value: value is False, "false itself."),
    "float": Entry(lambda budget, value: isinstance(value, float), "A floating-point number."),
    "in": Entry(lambda budget, value, container: contains(value, container, budget), "Contained in `container`."),
    "integer": Entry(lambda budget, value: isinstance(value, int) and not isinstance(value, bool), "A whole number."),
    "lower": _text_test(str.islower, "A text in lower case."),
    "mapping": Entry(lambda budget, value: isinstance(value, Mapping), "A map."),
    "none": Entry(lambda budget, value: value is None, "null."),
    "number": Entry(lambda budget, value: isinstance(value, int | float), "A number (or a boolean, as in Jinja)."),
    "odd": Entry(lambda budget, value: _integer(value) % 2 == 1, "An odd number."),
    "sameas": entry(sameas),
    "string": Entry(lambda budget, value: isinstance(value, str), "A text."),
    "true": Entry(lambda budget, value: value is True, "true itself, not just something that counts as true."),
    "undefined": _UNDEFINED,
    "upper": _text_test(str.isupper, "A text in upper case."),
}
TESTS = dict(sorted(TESTS.items()))


def _named_entry(kind: str, table: Mapping[str, Entry], name: Any, args: Sequence[Any], more: Sequence[str]) -> Entry:
    """The filter or test that an argument of a filter names."""
    operation = table.get(name) if isinstance(name, str) else None
    if operation is None:
        raise Fault(f"unknown {kind} {repr(clipped(name)) if isinstance(name, str) else kind_of(name)}")
    if operation.refuses(len(args), more):
        raise Fault(f"{kind} '{name}' takes {operation.signature}")
    return operation


def _check(budget: Budget, name: Any, value: Any, args: Sequence[Any]) -> bool:
    test = _named_entry("test", TESTS, name, args, ())
    budget.check()
    return holds(test, budget, unwrapped(value, budget.contents), args)


def holds(test: Entry, budget: Budget, value: Any, args: Sequence[Any]) -> bool:
    """The answer of a test, with the rule for missing values."""
    if isinstance(value, Missing) or any(isinstance(arg, Missing) for arg in args):
        return test is _NE or (test is _UNDEFINED and isinstance(value, Missing))
    return bool(test.call(budget, value, *args))


# --- filters


def _map(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> list[Any]:
    """A field of each element (attribute='name', default=...), or each element through a filter."""
    values = sequence(budget, value)
    budget.elements(len(values))
    if "attribute" in kwargs:
        if args or not set(kwargs) <= {"attribute", "default"}:
            raise Fault("map takes attribute and default, or the name of a filter and its arguments")
        get, fallback = getter(budget, kwargs["attribute"]), kwargs.get("default", NOTHING)
        picked = [get(element) for element in budget.each(values)]
        return [fallback if isinstance(e, Missing) and fallback is not NOTHING else e for e in picked]
    if not args:
        raise Fault("map needs the name of a filter, or attribute='...'")
    if not values:
        return []
    name, *rest = args
    entry = _named_entry("filter", FILTERS, name, rest, list(kwargs))
    mapped = []
    for element in budget.each(values):
        budget.check()
        plain = unwrapped(element, budget.contents)
        absent = isinstance(plain, Missing) and name not in TOLERANT
        mapped.append(plain if absent else entry.call(budget, plain, *rest, **kwargs))
    return mapped


def _selection(by_field: bool, expected: bool, doc: str) -> Entry:
    def call(budget: Budget, value: Any, *args: Any) -> list[Any]:
        values = sequence(budget, value)
        budget.elements(len(values))
        if by_field and not args:
            raise Fault("the name of a field is needed")
        get, test = (getter(budget, args[0]), args[1:]) if by_field else (getter(budget, None), args)
        return [
            element
            for element in budget.each(values)
            if (_check(budget, test[0], get(element), test[1:]) if test else bool(get(element))) is expected
        ]

    return Entry(call, doc)


def _outside_sql(budget: Budget, value: Any) -> Any:
    raise Fault("this filter only works in the SQL of a task")


FILTERS: dict[str, Entry] = {
    **entries_of(text_filters),
    **entries_of(value_filters),
    "count": entry(value_filters.length),
    "d": entry(value_filters.default),
    "e": entry(text_filters.escape),
    "map": entry(_map),
    "reject": _selection(False, False, "The elements that fail a test: `reject('none')`."),
    "rejectattr": _selection(
        True, False, "The elements with a field that fails a test: `rejectattr('state', 'eq', 'done')`."
    ),
    "select": _selection(False, True, "The elements that pass a test: `select('odd')`."),
    "selectattr": _selection(
        True, True, "The elements with a field that passes a test: `selectattr('age', 'ge', 18)`."
    ),
}
FILTERS = dict(sorted(FILTERS.items()))

SQL_FILTERS: dict[str, Entry] = {
    "ident": Entry(_outside_sql, "The text quoted as an SQL identifier."),
    "raw_sql": Entry(_outside_sql, "The text spliced into the SQL as it is; the validator warns."),
}

TOLERANT = frozenset({"default", "d"})  # filters that take a missing value


# --- functions


def _range(budget: Budget, scope: Scope, *args: Any) -> list[int]:
    """The whole numbers from start to before stop: `range(5)`, `range(10, 0, -1)`."""
    if not 1 <= len(args) <= 3 or not all(isinstance(arg, int) for arg in args):
        raise Fault("range takes one to three whole numbers")
    if len(args) == 3 and args[2] == 0:
        raise Fault("the step of a range cannot be 0")
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
    moment = scope.get(NOW_KEY)
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


# --- methods of strings


def _search(method: Callable[[str, str], int], doc: str) -> Entry:
    def call(budget: Budget, value: str, part: Any) -> int:
        budget.work(len(value))
        if not isinstance(part, str):
            raise Fault(f"cannot search for {kind_of(part)} in a string")
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


def _rsplit(budget: Budget, value: str, separator: Any = None, maxsplit: Any = -1) -> list[str]:
    """The parts between separators, counted from the end."""
    text_filters.split(budget, value, separator, maxsplit)  # charges the budget and checks the arguments
    budget.work(len(value) * len(separator or ""))  # looking from the end compares the whole separator everywhere
    return value.rsplit(separator, maxsplit)


def _join(budget: Budget, value: str, parts: Any) -> str:
    """The elements of a list with this text between them."""
    return value_filters.join(budget, parts, value)


def _format(budget: Budget, value: str, *args: Any, **kwargs: Any) -> str:
    """Fills {} and {name} fields; no attributes or items inside the braces."""
    try:
        return format_fields(value, args, kwargs, budget)
    except (ValueError, TypeError) as error:
        raise Fault(f"the format string does not fit: {error}") from None


# --- methods of maps and lists


def _values(budget: Budget, value: Mapping[str, Any]) -> list[Any]:
    """The values."""
    return [element for _, element in value_filters.items(budget, value)]


def _get(budget: Budget, value: Mapping[Any, Any], key: Any, default: Any = None) -> Any:
    """The value of a key, or `default`."""
    return value[key] if isinstance(key, str | int | float | None) and key in value else default


def _index(budget: Budget, value: list[Any], element: Any) -> int:
    """Position of the first equal element."""
    for place, other in enumerate(budget.each(value)):
        if equal(other, element, budget):
            return place
    raise Fault("the list does not have this element")


def _count_of(budget: Budget, value: list[Any], element: Any) -> int:
    """Number of elements that are equal to this one."""
    return sum(equal(other, element, budget) for other in budget.each(value))


_SHARED = ("capitalize", "lower", "removeprefix", "removesuffix", "replace", "split", "splitlines", "upper")
METHODS: dict[str, dict[str, Entry]] = {
    "str": {
        **{name: FILTERS[name] for name in (*_SHARED, "endswith", "startswith")},
        "center": _padding(str.center, "Centred in `width` characters."),
        "count": _search(str.count, "Number of occurrences of `part`."),
        "find": _search(str.find, "Position of the first `part`, or -1."),
        "format": entry(_format),
        "isalnum": _text_test(str.isalnum, "Only letters and digits."),
        "isalpha": _text_test(str.isalpha, "Only letters."),
        "isdigit": _text_test(str.isdigit, "Only digits."),
        "islower": _text_test(str.islower, "Letters in lower case."),
        "isspace": _text_test(str.isspace, "Only white space."),
        "isupper": _text_test(str.isupper, "Letters in upper case."),
        "join": entry(_join),
        "ljust": _padding(str.ljust, "Filled up to `width` at the end."),
        "lstrip": stripping(str.lstrip, "Without white space (or `chars`) at the start."),
        "rjust": _padding(str.rjust, "Filled up to `width` at the start."),
        "rsplit": entry(_rsplit),
        "rstrip": stripping(str.rstrip, "Without white space (or `chars`) at the end."),
        "strip": FILTERS["trim"],
        "title": changing(str.title, "Each word with a capital."),
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
