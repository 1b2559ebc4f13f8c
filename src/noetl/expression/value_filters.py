"""Filters of numbers, lists and maps. Every public name of this module is a filter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby as runs
from math import ceil, floor, isfinite
from typing import Any

from noetl.expression.budget import ELEMENTS, Budget, bounded_int
from noetl.expression.entries import Entry, bounded_text, getter, sequence, whole
from noetl.expression.operators import add, bounded_number
from noetl.expression.text import to_json, to_text
from noetl.expression.values import NOTHING, SCALARS, Fault, Group, Missing, OutOfBudget, Undefined, kind_of, unwrapped

_SORTED_TEXT = 4 << 20  # characters of all keys together
_SORT_KEYS = 16
_NUMBER_TEXT = 4096


def _folded(budget: Budget, value: Any, case_sensitive: bool) -> Any:
    return (
        budget.counted(bounded_text(budget, value).lower()) if isinstance(value, str) and not case_sensitive else value
    )


def _sort_key(value: Any) -> Any:
    """Scalars and short lists of scalars have an order; others could take forever to compare."""
    if isinstance(value, Missing):
        raise Undefined(value)
    if type(value) in SCALARS:
        return value
    if isinstance(value, list | tuple) and len(value) <= _SORT_KEYS and all(type(v) in SCALARS for v in value):
        return value
    raise Fault(f"cannot sort by {kind_of(value)}", "sort by a field with attribute='...'")


def _sorted(budget: Budget, values: Sequence[Any], key: Callable[[Any], Any], reverse: bool = False) -> list[Any]:
    budget.elements(len(values))
    keys = [_sort_key(key(value)) for value in budget.each(values)]
    parts = (part for key in keys for part in (key if isinstance(key, list | tuple) else (key,)))
    if sum(len(part) for part in parts if isinstance(part, str)) > _SORTED_TEXT:  # sorted() does not check the clock
        raise OutOfBudget("the texts are too long to sort")
    order = range(len(values))
    try:
        return [values[i] for i in sorted(order, key=keys.__getitem__, reverse=bool(reverse))]
    except TypeError:
        kinds = sorted({kind_of(key) for key in keys})
        raise Fault(f"cannot sort {' and '.join(kinds[:3])} together") from None


def _number(value: Any) -> Any:
    if not isinstance(value, int | float):
        raise Fault(f"a number is needed here, not {kind_of(value)}")
    return value


def _end(place: int, doc: str) -> Entry:
    def call(budget: Budget, value: Any) -> Any:
        value = unwrapped(value, budget.contents)
        values = value if isinstance(value, str) else sequence(budget, value)  # no copy of a long string
        return values[place] if len(values) else NOTHING

    return Entry(call, doc)


def _extreme(place: int, doc: str) -> Entry:
    def call(budget: Budget, value: Any, case_sensitive: Any = False, attribute: Any = None) -> Any:
        get, values = getter(budget, attribute), sequence(budget, value)
        if not values:
            return NOTHING
        keys = [_folded(budget, get(element), case_sensitive) for element in budget.each(values)]
        extreme_key = _sorted(budget, keys, lambda key: key)[place]
        return next(element for element, key in zip(values, keys, strict=True) if key == extreme_key)

    return Entry(call, doc)


first = _end(0, "The first element; missing if there is none.")
last = _end(-1, "The last element; missing if there is none.")
max_ = _extreme(-1, "The largest element; missing if there is none.")
min_ = _extreme(0, "The smallest element; missing if there is none.")


def abs_(budget: Budget, value: Any) -> Any:
    """The number without its sign."""
    return abs(_number(value))


def filesizeformat(budget: Budget, value: Any, binary: Any = False) -> str:
    """A number of bytes as 13 kB, 4.1 MB."""
    size = float_(budget, value)
    base = 1024 if binary else 1000
    if size == 1:
        return "1 Byte"
    if size < base:
        return f"{int(size)} Bytes"
    power = next((power for power in range(2, 9) if size < base**power), 9)
    prefix = ("KMGTPEZY" if binary else "kMGTPEZY")[power - 2]
    return f"{base * size / base**power:.1f} {prefix}{'iB' if binary else 'B'}"


def float_(budget: Budget, value: Any, default: Any = 0.0) -> Any:
    """As a floating-point number, or `default` if it is none."""
    if isinstance(value, str) and len(value) > _NUMBER_TEXT:
        return default
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return default
    return number if isfinite(number) else default


def int_(budget: Budget, value: Any, default: Any = 0, base: Any = 10) -> Any:
    """As a whole number, or `default` if it is none."""
    base = whole(base, "base", high=36)
    try:
        if isinstance(value, str):
            return bounded_int(int(value, base)) if len(value) <= _NUMBER_TEXT else default
        return bounded_int(int(value))
    except (TypeError, ValueError, OverflowError):
        pass
    try:
        return bounded_int(int(float(value)))
    except (TypeError, ValueError, OverflowError):
        return default


def round_(budget: Budget, value: Any, precision: Any = 0, method: Any = "common") -> Any:
    """Rounded to `precision` digits; method common, ceil or floor."""
    number = _number(value)
    precision = whole(precision, "precision", low=-300, high=300)
    if method == "common":
        return bounded_number(round(number, precision))
    if method not in ("ceil", "floor"):
        raise Fault("method is common, ceil or floor")
    scale = 10.0**precision
    return bounded_number((ceil if method == "ceil" else floor)(number * scale) / scale)


def batch(budget: Budget, value: Any, linecount: Any, fill_with: Any = None) -> list[list[Any]]:
    """Lists of `linecount` elements; the last one filled up with `fill_with`."""
    values, size = sequence(budget, value), whole(linecount, "linecount", low=1, high=ELEMENTS)
    budget.elements(len(values) + size)
    rows = [list(values[start : start + size]) for start in range(0, len(values), size)]
    if rows and fill_with is not None:
        rows[-1] += [fill_with] * (size - len(rows[-1]))
    return rows


def default(budget: Budget, value: Any, default_value: Any = "", boolean: Any = False) -> Any:
    """`default_value` if the value is missing; with boolean=true also if it is false or empty."""
    absent = isinstance(value, Missing) or (boolean and not value)
    return default_value if absent else value


def dictsort(
    budget: Budget, value: Any, case_sensitive: Any = False, by: Any = "key", reverse: Any = False
) -> list[Any]:
    """The pairs of a map, sorted by key or value."""
    if by not in ("key", "value"):
        raise Fault("by is key or value")
    place = 0 if by == "key" else 1
    return _sorted(budget, items(budget, value), lambda pair: _folded(budget, pair[place], case_sensitive), reverse)


def groupby(
    budget: Budget, value: Any, attribute: Any, default: Any = None, case_sensitive: Any = False
) -> list[Group]:
    """Pairs of a value of `attribute` and the elements that have it."""
    get = getter(budget, attribute)

    def key_of(element: Any) -> Any:
        key = get(element)
        return default if isinstance(key, Missing) and default is not None else key

    def key(element: Any) -> Any:
        return _folded(budget, key_of(element), case_sensitive)

    values = _sorted(budget, sequence(budget, value), key)
    budget.elements(len(values))
    return [Group((key_of(group[0]), group)) for _, part in runs(values, key) if (group := list(part))]


def items(budget: Budget, value: Any) -> list[Any]:
    """The key and value pairs of a map."""
    value = unwrapped(value, budget.contents)
    if not isinstance(value, Mapping):
        raise Fault(f"a map is needed here, not {kind_of(value)}")
    budget.elements(2 * len(value))
    return [(key, unwrapped(element, budget.contents)) for key, element in value.items()]


def join(budget: Budget, value: Any, d: Any = "", attribute: Any = None) -> str:
    """The elements as one text, with `d` between them."""
    get, between = getter(budget, attribute), to_text(d, budget)
    values = sequence(budget, value)
    budget.string(len(between) * max(len(values) - 1, 0))
    budget.charge(8 * len(values))
    parts = []
    for element in budget.each(values):
        text = to_text(get(element), budget)
        budget.string(len(text))
        parts.append(text)
    budget.string(sum(map(len, parts)) + len(between) * max(len(parts) - 1, 0))
    return between.join(parts)


def length(budget: Budget, value: Any) -> int:
    """Number of elements, keys or characters."""
    value = unwrapped(value, budget.contents)
    if not isinstance(value, Mapping | list | tuple | str):
        raise Fault(f"{kind_of(value)} has no length")
    return len(value)


def list_(budget: Budget, value: Any) -> list[Any]:
    """As a new list; a text becomes its characters."""
    values = sequence(budget, value)
    budget.elements(len(values))
    return list(values)


def reverse(budget: Budget, value: Any) -> Any:
    """A text or list from its end."""
    value = unwrapped(value, budget.contents)
    if isinstance(value, str):
        return budget.counted(value[::-1])
    return list_(budget, value)[::-1]


def slice_(budget: Budget, value: Any, slices: Any, fill_with: Any = None) -> list[list[Any]]:
    """The elements in `slices` lists of about equal length."""
    values, count = sequence(budget, value), whole(slices, "slices", low=1, high=ELEMENTS)
    budget.elements(len(values) + 2 * count)
    size, longer = divmod(len(values), count)
    out, start = [], 0
    for number in range(count):
        end = start + size + (number < longer)
        filled = fill_with is not None and number >= longer
        out.append([*values[start:end], *([fill_with] if filled else [])])
        start = end
    return out


def sort(
    budget: Budget, value: Any, reverse: Any = False, case_sensitive: Any = False, attribute: Any = None
) -> list[Any]:
    """Sorted; attribute='a,b.c' sorts by fields."""
    if isinstance(attribute, str) and attribute.count(",") >= _SORT_KEYS:
        raise Fault(f"attribute may name at most {_SORT_KEYS} fields")
    fields = attribute.split(",") if isinstance(attribute, str) else [attribute]
    gets = [getter(budget, field) for field in fields]

    def key(element: Any) -> Any:
        keys = [_folded(budget, _sort_key(get(element)), case_sensitive) for get in gets]
        return keys[0] if len(keys) == 1 else keys

    return _sorted(budget, sequence(budget, value), key, reverse)


def sum_(budget: Budget, value: Any, attribute: Any = None, start: Any = 0) -> Any:
    """The sum of the elements, or of one field of each."""
    get, total = getter(budget, attribute), start
    for element in budget.each(sequence(budget, value)):
        number = get(element)
        if isinstance(number, Missing):
            return number
        total = add(total, number, budget)
    return total


def unique(budget: Budget, value: Any, case_sensitive: Any = False, attribute: Any = None) -> list[Any]:
    """Each different element once, in order."""
    get, values = getter(budget, attribute), sequence(budget, value)
    budget.elements(2 * len(values) if len(values) <= ELEMENTS // 2 else len(values))
    marks: set[Any] = set()
    distinct = []
    for element in budget.each(values):
        key = _folded(budget, get(element), case_sensitive)
        mark = key if type(key) in SCALARS else ("json", to_json(key, budget))
        if mark not in marks:
            marks.add(mark)
            distinct.append(element)
    return distinct
