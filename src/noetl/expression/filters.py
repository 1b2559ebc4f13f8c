"""The filters: what `{{ value | name(arguments) }}` can do.

Each filter is a plain function `(budget, value, ...)` whose first docstring line is its entry in the
reference. A filter is never called with a missing value (the result is then missing too), except `default`.
What it makes, it first asks the budget for; it raises Fault with a message for the author.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby as runs
from math import ceil, floor, isfinite
from typing import Any

from noetl.expression.budget import CHARACTERS, ELEMENTS, Budget, bounded_int
from noetl.expression.data import storable
from noetl.expression.fault import Fault, OutOfBudget, Undefined, clipped
from noetl.expression.missing import NOTHING, SCALARS, Group, Missing, kind_of, lookup, unwrapped
from noetl.expression.operators import add
from noetl.expression.text import printf, to_json, to_text

_SLOW_TEXT = 1 << 16  # for work that Python does character by character
_SORTED_TEXT = 4 << 20  # characters of all keys together
_WRAPPED_LINE = 1 << 13  # textwrap takes the square of a line
_PATH_PARTS = 32  # of attribute='a.b.c'
_PATH_CHARACTERS = 1024
_SORT_KEYS = 16
_NUMBER_TEXT = 4096


@dataclass(frozen=True, slots=True)
class Entry:
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
        """Whether a call with so many arguments can't work, whatever the values are."""
        code, defaults = self.call.__code__, self.call.__defaults__ or ()
        names = code.co_varnames[2 : code.co_argcount]
        if positional > len(names) and not code.co_flags & 0x04:  # no *args
            return True
        if not code.co_flags & 0x08 and not set(keywords) <= set(names[positional:]):  # no **kwargs
            return True
        return not set(names[positional : len(names) - len(defaults)]) <= set(keywords)


# --- helpers -----------------------------------------------------------------------------------------


def sequence(budget: Budget, value: Any) -> Sequence[Any]:
    """The elements of a list, the keys of a map, the characters of a string."""
    value = unwrapped(value)
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, Mapping | str):
        budget.elements(len(value))
        return list(value)
    if isinstance(value, Missing):
        raise Undefined(value)
    raise Fault(f"a list is needed here, not {kind_of(value)}")


def getter(attribute: str | int | None) -> Callable[[Any], Any]:
    """How to get `a.b.0` out of an element."""
    if attribute is None:
        return unwrapped
    if not isinstance(attribute, str | int):
        raise Fault(f"attribute is a name, not {kind_of(attribute)}")
    if isinstance(attribute, str) and (len(attribute) > _PATH_CHARACTERS or attribute.count(".") >= _PATH_PARTS):
        raise Fault(f"attribute may have at most {_PATH_PARTS} parts and {_PATH_CHARACTERS:,} characters")
    steps = [int(part) if part.isdecimal() and len(part) < 9 else part for part in str(attribute).split(".")]
    missing = Missing(str(attribute))

    def get(element: Any) -> Any:
        for step in steps:
            element = lookup(element, step, missing)
        return unwrapped(element)

    return get


def _folded(budget: Budget, value: Any, case_sensitive: bool) -> Any:
    return lower(budget, value) if isinstance(value, str) and not case_sensitive else value


def _sort_key(value: Any) -> Any:
    """Scalars and short lists of scalars have an order; others could take for ever to compare."""
    if isinstance(value, Missing):
        raise Undefined(value)
    if type(value) in SCALARS:
        return value
    if isinstance(value, list | tuple) and len(value) <= _SORT_KEYS and all(type(v) in SCALARS for v in value):
        return value
    raise Fault(f"can't sort by {kind_of(value)}", "sort by a field with attribute='...'")


def _text_in(key: Any) -> int:
    if isinstance(key, list | tuple):
        return sum(len(part) for part in key if isinstance(part, str))
    return len(key) if isinstance(key, str) else 0


def _sorted(budget: Budget, values: Sequence[Any], key: Callable[[Any], Any], reverse: bool = False) -> list[Any]:
    budget.elements(len(values))
    keys = [_sort_key(key(value)) for value in budget.each(values)]
    if sum(_text_in(key) for key in keys) > _SORTED_TEXT:  # sorted() does not check the clock
        raise OutOfBudget("the texts are too long to sort")
    order = range(len(values))
    try:
        return [values[i] for i in sorted(order, key=keys.__getitem__, reverse=bool(reverse))]
    except TypeError:
        kinds = sorted({kind_of(key) for key in keys})
        raise Fault(f"can't sort {' and '.join(kinds[:3])} together") from None


def _whole(value: Any, what: str, low: int = 0, high: int = CHARACTERS) -> int:
    if not isinstance(value, int) or not low <= value <= high:
        raise Fault(f"{what} must be a whole number from {low} to {high:,}")
    return int(value)


def _string(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise Fault(f"{what} must be a string, not {kind_of(value)}")
    return value


def _short(budget: Budget, value: Any) -> str:
    text = to_text(value, budget)
    if len(text) > _SLOW_TEXT:
        raise OutOfBudget(f"this filter takes at most {_SLOW_TEXT:,} characters")
    return text


def _bounded(budget: Budget, value: Any) -> str:
    """The text, for work that gives one of about the same length."""
    text = to_text(value, budget)
    budget.string(len(text))
    return text


def _number(value: Any) -> Any:
    if not isinstance(value, int | float):
        raise Fault(f"a number is needed here, not {kind_of(value)}")
    return value


# --- text --------------------------------------------------------------------------------------------


def capitalize(budget: Budget, value: Any) -> str:
    """First character upper case, the rest lower case."""
    return budget.made(_bounded(budget, value).capitalize())


def center(budget: Budget, value: Any, width: Any = 80) -> str:
    """Centred in a field of `width` characters."""
    budget.string(_whole(width, "width"))
    return to_text(value, budget).center(width)


def endswith(budget: Budget, value: Any, suffix: Any) -> bool:
    """Whether the text ends with `suffix`."""
    return to_text(value, budget).endswith(_string(suffix, "suffix"))


def escape(budget: Budget, value: Any) -> str:
    """Characters special in HTML replaced by entities."""
    text = to_text(value, budget)
    for plain, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("'", "&#39;"), ('"', "&#34;")):
        text = replace(budget, text, plain, entity)
    return text


def format(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> str:
    """Fills a printf-style text: `"%s is %.1f" | format(name, size)`."""
    if args and kwargs:
        raise Fault("format takes either positional or named arguments")
    return printf(to_text(value, budget), kwargs or args, budget)


def indent(budget: Budget, value: Any, width: Any = 4, first: Any = False, blank: Any = False) -> str:
    """Lines indented by `width` spaces (or by a text); the first one only if asked."""
    margin = width if isinstance(width, str) else " " * _whole(width, "width", high=1000)
    text = to_text(value, budget)
    budget.string(len(text) + len(margin) * (text.count("\n") + 1))
    budget.charge(8 * text.count("\n"))
    lines = text.split("\n")
    body = [margin + line if line or blank else line for line in lines[1:]]
    head = margin + lines[0] if first else lines[0]
    return "\n".join([head, *body])


def lower(budget: Budget, value: Any) -> str:
    """In lower case."""
    return budget.made(_bounded(budget, value).lower())


def removeprefix(budget: Budget, value: Any, prefix: Any) -> str:
    """Without `prefix`, if the text starts with it."""
    return budget.made(to_text(value, budget).removeprefix(_string(prefix, "prefix")))


def removesuffix(budget: Budget, value: Any, suffix: Any) -> str:
    """Without `suffix`, if the text ends with it."""
    return budget.made(to_text(value, budget).removesuffix(_string(suffix, "suffix")))


def replace(budget: Budget, value: Any, old: Any, new: Any, count: Any = None) -> str:
    """Each `old` replaced by `new`, at most `count` times."""
    text, old, new = to_text(value, budget), to_text(old, budget), to_text(new, budget)
    budget.work(len(text))
    times = text.count(old) if count is None else min(text.count(old), _whole(count, "count", low=-1))
    times = text.count(old) if times < 0 else times
    budget.string(len(text) + times * max(len(new) - len(old), 0))
    return text.replace(old, new, times)


def split(budget: Budget, value: Any, separator: Any = None, maxsplit: Any = -1) -> list[str]:
    """The parts between separators (any white space if none is given)."""
    text = to_text(value, budget)
    if separator is not None and not _string(separator, "separator"):
        raise Fault("the separator is empty")
    budget.work(len(text))
    pieces = text.count(separator) + 1 if separator else min(len(text) // 2 + 1, ELEMENTS)
    limit = _whole(maxsplit, "maxsplit", low=-1)
    budget.elements(pieces if limit < 0 else min(pieces, limit + 1))
    budget.charge(len(text))
    parts = text.split(separator, ELEMENTS if limit < 0 else min(limit, ELEMENTS))
    budget.elements(len(parts))
    return parts


def splitlines(budget: Budget, value: Any) -> list[str]:
    """The lines, without line ends."""
    text = to_text(value, budget)
    budget.charge(len(text) * 8)
    lines = text.splitlines()
    budget.elements(len(lines))
    return lines


def startswith(budget: Budget, value: Any, prefix: Any) -> bool:
    """Whether the text starts with `prefix`."""
    return to_text(value, budget).startswith(_string(prefix, "prefix"))


def string(budget: Budget, value: Any) -> str:
    """As text."""
    return to_text(value, budget)


def striptags(budget: Budget, value: Any) -> str:
    """Without HTML comments and tags, white space collapsed."""
    text = _short(budget, value)
    for opening, closing in (("<!--", "-->"), ("<", ">")):
        parts: list[str] = []
        rest = text
        while (start := rest.find(opening)) >= 0 and (end := rest.find(closing, start)) >= 0:
            parts.append(rest[:start])
            rest = rest[end + len(closing) :]
            budget.check()
        text = "".join(parts) + rest
    return budget.made(" ".join(text.split()))


def title(budget: Budget, value: Any) -> str:
    """Each word with a capital."""
    out: list[str] = []
    start = True
    for character in _short(budget, value):
        out.append(character.upper() if start else character.lower())
        start = character in "-([{<" or character.isspace()
    return budget.made("".join(out))


def trim(budget: Budget, value: Any, chars: Any = None) -> str:
    """Without white space (or `chars`) at both ends."""
    return stripped(budget, to_text(value, budget), chars, str.strip)


def stripped(budget: Budget, text: str, chars: Any, strip: Callable[[str, str | None], str]) -> str:
    """The text without `chars` where `strip` looks for them: each character is compared with each of them."""
    if chars is not None:
        budget.work(len(text) * len(_string(chars, "chars")))
    return budget.made(strip(text, chars))


def truncate(
    budget: Budget, value: Any, length: Any = 255, killwords: Any = False, end: Any = "...", leeway: Any = 5
) -> str:
    """At most `length` characters, cut at a word unless `killwords`."""
    text, end = to_text(value, budget), _string(end, "end")
    length, leeway = _whole(length, "length", low=len(end)), _whole(leeway, "leeway")
    if len(text) <= length + leeway:
        return text
    beginning = text[: length - len(end)]
    return budget.made((beginning if killwords else beginning.rsplit(" ", 1)[0]) + end)


def upper(budget: Budget, value: Any) -> str:
    """In upper case."""
    return budget.made(_bounded(budget, value).upper())


def urlencode(budget: Budget, value: Any) -> str:
    """Quoted for a URL; a map or a list of pairs becomes a query string."""
    value = unwrapped(value)
    if isinstance(value, Mapping):
        value = list(value.items())
    if not isinstance(value, list | tuple):
        return _quoted(budget, value, safe="/")
    pairs = []
    for pair in budget.each(value):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise Fault("urlencode takes text, a map or a list of pairs")
        pairs.append("=".join(_quoted(budget, part).replace("%20", "+") for part in pair))
    return budget.made("&".join(pairs))


def _quoted(budget: Budget, value: Any, safe: str = "") -> str:
    from urllib.parse import quote  # `noetl validate` starts without it

    budget.check()
    return budget.made(quote(_short(budget, value), safe=safe))


def wordcount(budget: Budget, value: Any) -> int:
    """How many words."""
    text = to_text(value, budget)
    budget.check()
    count, inside = 0, False
    if len(text) > _SLOW_TEXT * 4:
        raise OutOfBudget("the text is too long to count words in")
    for character in text:
        word = character.isalnum() or character == "_"
        count += word and not inside
        inside = word
    return count


def wordwrap(
    budget: Budget,
    value: Any,
    width: Any = 79,
    break_long_words: Any = True,
    wrapstring: Any = None,
    break_on_hyphens: Any = True,
) -> str:
    """Wrapped into lines of at most `width` characters."""
    import textwrap  # rarely needed and not free to import

    wrap = "\n" if wrapstring is None else _string(wrapstring, "wrapstring")
    text = _short(budget, value)
    width = _whole(width, "width", low=1)
    if max(map(len, text.splitlines()), default=0) > _WRAPPED_LINE:
        raise OutOfBudget(f"a line to wrap may have at most {_WRAPPED_LINE:,} characters")
    budget.string(len(text) + len(wrap) * (len(text) // width + text.count(" ") + text.count("\n") + 1))
    out = []
    for line in text.splitlines():
        budget.check()
        out += textwrap.wrap(
            line,
            width=width,
            expand_tabs=False,
            replace_whitespace=False,
            break_long_words=bool(break_long_words),
            break_on_hyphens=bool(break_on_hyphens),
        ) or [""]
    budget.string(sum(map(len, out)) + len(wrap) * len(out))
    return wrap.join(out)


# --- numbers -----------------------------------------------------------------------------------------


def absolute(budget: Budget, value: Any) -> Any:
    """The number without its sign."""
    return abs(_number(value))


def filesizeformat(budget: Budget, value: Any, binary: Any = False) -> str:
    """A number of bytes as 13 kB, 4.1 MB."""
    size = to_float(budget, value)
    base = 1024 if binary else 1000
    if size == 1:
        return "1 Byte"
    if size < base:
        return f"{int(size)} Bytes"
    for power, prefix in enumerate("KMGTPEZY" if binary else "kMGTPEZY", 2):
        if size < base**power or power == 9:
            return f"{base * size / base**power:.1f} {prefix}{'iB' if binary else 'B'}"
    raise AssertionError("the loop returns at the last prefix")


def to_float(budget: Budget, value: Any, default: Any = 0.0) -> Any:
    """As a floating-point number, or `default` if it is none."""
    if isinstance(value, str) and len(value) > _NUMBER_TEXT:
        return default
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return default
    return number if isfinite(number) else default


def to_int(budget: Budget, value: Any, default: Any = 0, base: Any = 10) -> Any:
    """As a whole number, or `default` if it is none."""
    base = _whole(base, "base", high=36)
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
    precision = _whole(precision, "precision", low=-300, high=300)
    if method == "common":
        return _finite(round(number, precision))
    if method not in ("ceil", "floor"):
        raise Fault("method is common, ceil or floor")
    scale = 10.0**precision
    return _finite((ceil if method == "ceil" else floor)(number * scale) / scale)


def _finite(number: Any) -> Any:
    if isinstance(number, float) and not isfinite(number):
        raise Fault("the number is too large")
    return number


# --- lists and maps ----------------------------------------------------------------------------------


def batch(budget: Budget, value: Any, linecount: Any, fill_with: Any = None) -> list[list[Any]]:
    """Lists of `linecount` elements; the last one filled up with `fill_with`."""
    values, size = sequence(budget, value), _whole(linecount, "linecount", low=1, high=ELEMENTS)
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


def first(budget: Budget, value: Any) -> Any:
    """The first element; missing if there is none."""
    values = _ends(budget, value)
    return values[0] if len(values) else NOTHING


def groupby(
    budget: Budget, value: Any, attribute: Any, default: Any = None, case_sensitive: Any = False
) -> list[Group]:
    """Pairs of a value of `attribute` and the elements that have it."""
    get = getter(attribute)

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
    value = unwrapped(value)
    if not isinstance(value, Mapping):
        raise Fault(f"a map is needed here, not {kind_of(value)}")
    budget.elements(2 * len(value))
    return [(key, unwrapped(element)) for key, element in value.items()]


def join(budget: Budget, value: Any, d: Any = "", attribute: Any = None) -> str:
    """The elements as one text, with `d` between them."""
    get, between = getter(attribute), to_text(d, budget)
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


def last(budget: Budget, value: Any) -> Any:
    """The last element; missing if there is none."""
    values = _ends(budget, value)
    return values[-1] if len(values) else NOTHING


def _ends(budget: Budget, value: Any) -> Sequence[Any]:
    """What first and last look at: no copy of a long string."""
    value = unwrapped(value)
    return value if isinstance(value, str) else sequence(budget, value)


def length(budget: Budget, value: Any) -> int:
    """How many elements, keys or characters."""
    value = unwrapped(value)
    if not isinstance(value, Mapping | list | tuple | str):
        raise Fault(f"{kind_of(value)} has no length")
    return len(value)


def to_list(budget: Budget, value: Any) -> list[Any]:
    """As a new list; a text becomes its characters."""
    values = sequence(budget, value)
    budget.elements(len(values))
    return list(values)


def map_(budget: Budget, value: Any, *args: Any, **kwargs: Any) -> list[Any]:
    """A field of each element (attribute='name', default=...), or each element through a filter."""
    values = sequence(budget, value)
    budget.elements(len(values))
    if "attribute" in kwargs:
        if args or not set(kwargs) <= {"attribute", "default"}:
            raise Fault("map takes attribute and default, or the name of a filter and its arguments")
        get, fallback = getter(kwargs["attribute"]), kwargs.get("default", NOTHING)
        picked = [get(element) for element in budget.each(values)]
        return [fallback if isinstance(e, Missing) and fallback is not NOTHING else e for e in picked]
    if not args:
        raise Fault("map needs the name of a filter, or attribute='...'")
    return [apply(budget, args[0], element, args[1:], kwargs) for element in budget.each(values)]


def apply(budget: Budget, name: Any, value: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """One filter by name, for `map`."""
    entry = FILTERS.get(name) if isinstance(name, str) else None
    if entry is None:
        raise Fault(f"no filter is called {named(name)}")
    if entry.refuses(len(args), list(kwargs)):
        raise Fault(f"filter '{name}' takes {entry.signature}")
    budget.check()
    value = unwrapped(value)
    if isinstance(value, Missing) and name not in TOLERANT:
        return value
    return entry.call(budget, value, *args, **kwargs)


def named(name: Any) -> str:
    """A name for a message; for other values their type, since their text may be very long."""
    return repr(clipped(name)) if isinstance(name, str) else kind_of(name)


def max_(budget: Budget, value: Any, case_sensitive: Any = False, attribute: Any = None) -> Any:
    """The largest element; missing if there is none."""
    return _extreme(budget, value, case_sensitive, attribute, -1)


def min_(budget: Budget, value: Any, case_sensitive: Any = False, attribute: Any = None) -> Any:
    """The smallest element; missing if there is none."""
    return _extreme(budget, value, case_sensitive, attribute, 0)


def _extreme(budget: Budget, value: Any, case_sensitive: Any, attribute: Any, place: int) -> Any:
    get, values = getter(attribute), sequence(budget, value)
    if not values:
        return NOTHING
    keys = [_folded(budget, get(element), case_sensitive) for element in budget.each(values)]
    wanted = _sorted(budget, keys, lambda key: key)[place]
    return next(element for element, key in zip(values, keys, strict=True) if key == wanted)


def _kept(budget: Budget, value: Any, args: tuple[Any, ...], by_field: bool, wanted: bool) -> list[Any]:
    values = sequence(budget, value)
    budget.elements(len(values))
    if by_field and not args:
        raise Fault("the name of a field is needed")
    get, test_args = (getter(args[0]), args[1:]) if by_field else (unwrapped, args)
    return [v for v in budget.each(values) if _passes(budget, get(v), test_args) is wanted]


def _passes(budget: Budget, value: Any, args: tuple[Any, ...]) -> bool:
    from noetl.expression.predicates import check  # predicates build on filters

    return check(budget, args[0], value, args[1:]) if args else bool(value)


def reject(budget: Budget, value: Any, *args: Any) -> list[Any]:
    """The elements that fail a test: `reject('none')`."""
    return _kept(budget, value, args, by_field=False, wanted=False)


def rejectattr(budget: Budget, value: Any, *args: Any) -> list[Any]:
    """The elements with a field that fails a test: `rejectattr('state', 'eq', 'done')`."""
    return _kept(budget, value, args, by_field=True, wanted=False)


def select(budget: Budget, value: Any, *args: Any) -> list[Any]:
    """The elements that pass a test: `select('odd')`."""
    return _kept(budget, value, args, by_field=False, wanted=True)


def selectattr(budget: Budget, value: Any, *args: Any) -> list[Any]:
    """The elements with a field that passes a test: `selectattr('age', 'ge', 18)`."""
    return _kept(budget, value, args, by_field=True, wanted=True)


def reverse(budget: Budget, value: Any) -> Any:
    """A text or list from its end."""
    value = unwrapped(value)
    if isinstance(value, str):
        return budget.made(value[::-1])
    return to_list(budget, value)[::-1]


def slice_(budget: Budget, value: Any, slices: Any, fill_with: Any = None) -> list[list[Any]]:
    """The elements in `slices` lists of about equal length."""
    values, count = sequence(budget, value), _whole(slices, "slices", low=1, high=ELEMENTS)
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
    gets = [getter(a) for a in attribute.split(",")] if isinstance(attribute, str) else [getter(attribute)]

    def key(element: Any) -> Any:
        keys = [_folded(budget, _sort_key(get(element)), case_sensitive) for get in gets]
        return keys[0] if len(keys) == 1 else keys

    return _sorted(budget, sequence(budget, value), key, reverse)


def sum_(budget: Budget, value: Any, attribute: Any = None, start: Any = 0) -> Any:
    """The sum of the elements, or of one field of each."""
    get, total = getter(attribute), start
    for element in budget.each(sequence(budget, value)):
        number = get(element)
        if isinstance(number, Missing):
            return number
        total = add(total, number, budget)
    return total


def unique(budget: Budget, value: Any, case_sensitive: Any = False, attribute: Any = None) -> list[Any]:
    """Each different element once, in order."""
    get, values = getter(attribute), sequence(budget, value)
    budget.elements(2 * len(values) if len(values) <= ELEMENTS // 2 else len(values))
    seen: set[Any] = set()
    distinct = []
    for element in budget.each(values):
        key = _folded(budget, get(element), case_sensitive)
        mark = key if type(key) in SCALARS else ("json", to_json(key, budget))
        if mark not in seen:
            seen.add(mark)
            distinct.append(element)
    return distinct


# --- encodings ---------------------------------------------------------------------------------------


def b64decode(budget: Budget, value: Any) -> str:
    """The text (UTF-8) that was encoded as base64."""
    text = _string(unwrapped(value), "base64")
    budget.charge(8 * len(text))
    try:
        data = "".join(text.split()).encode("ascii")  # mail wraps its lines
        return budget.made(binascii.a2b_base64(data, strict_mode=True).decode())
    except (ValueError, UnicodeError):
        raise Fault("this is not the base64 of a text") from None


def b64encode(budget: Budget, value: Any) -> str:
    """The text (as UTF-8) in base64."""
    try:
        return budget.made(binascii.b2a_base64(_bounded(budget, value).encode(), newline=False).decode())
    except UnicodeError:
        raise Fault("the text has characters that UTF-8 can't encode") from None


def fromjson(budget: Budget, value: Any) -> Any:
    """The value of a JSON text."""
    import json  # `noetl validate` starts without it

    text = _string(unwrapped(value), "JSON")
    budget.string(len(text))
    budget.charge(64 * sum(map(text.count, "[{,:")))  # about what each becomes in memory
    try:
        parsed = json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        raise Fault(f"this is not JSON: {clipped(str(error))}") from None
    return storable(parsed, budget)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def tojson(budget: Budget, value: Any, indent: Any = None) -> str:
    """As JSON, keys sorted; indent=2 for people."""
    return to_json(value, budget, None if indent is None else _whole(indent, "indent", high=16))


def _outside_sql(budget: Budget, value: Any) -> Any:
    raise Fault("this filter only works in the SQL of a task")


def entry(call: Callable[..., Any]) -> Entry:
    """An entry documented by the first line of the function's docstring."""
    return Entry(call, (call.__doc__ or "").strip().split("\n")[0])


FILTERS: dict[str, Entry] = {
    "abs": entry(absolute),
    "b64decode": entry(b64decode),
    "b64encode": entry(b64encode),
    "batch": entry(batch),
    "capitalize": entry(capitalize),
    "center": entry(center),
    "count": entry(length),
    "d": entry(default),
    "default": entry(default),
    "dictsort": entry(dictsort),
    "e": entry(escape),
    "endswith": entry(endswith),
    "escape": entry(escape),
    "filesizeformat": entry(filesizeformat),
    "first": entry(first),
    "float": entry(to_float),
    "format": entry(format),
    "fromjson": entry(fromjson),
    "groupby": entry(groupby),
    "indent": entry(indent),
    "int": entry(to_int),
    "items": entry(items),
    "join": entry(join),
    "last": entry(last),
    "length": entry(length),
    "list": entry(to_list),
    "lower": entry(lower),
    "map": entry(map_),
    "max": entry(max_),
    "min": entry(min_),
    "reject": entry(reject),
    "rejectattr": entry(rejectattr),
    "removeprefix": entry(removeprefix),
    "removesuffix": entry(removesuffix),
    "replace": entry(replace),
    "reverse": entry(reverse),
    "round": entry(round_),
    "select": entry(select),
    "selectattr": entry(selectattr),
    "slice": entry(slice_),
    "sort": entry(sort),
    "split": entry(split),
    "splitlines": entry(splitlines),
    "startswith": entry(startswith),
    "string": entry(string),
    "striptags": entry(striptags),
    "sum": entry(sum_),
    "title": entry(title),
    "tojson": entry(tojson),
    "trim": entry(trim),
    "truncate": entry(truncate),
    "unique": entry(unique),
    "upper": entry(upper),
    "urlencode": entry(urlencode),
    "wordcount": entry(wordcount),
    "wordwrap": entry(wordwrap),
}

SQL_FILTERS: dict[str, Entry] = {
    "ident": Entry(_outside_sql, "The text quoted as an SQL identifier."),
    "raw_sql": Entry(_outside_sql, "The text spliced into the SQL as it is; the validator warns."),
}

TOLERANT = frozenset({"default", "d"})  # filters that take a missing value
