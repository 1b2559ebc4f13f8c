"""Values as text, JSON, printf and format, and as data that can be stored, all bounded before anything is made.

A structure that shares its parts ([x, x] of [y, y] of ...) is small in memory and exponential when it is written, so
everything here walks a value in Python and pays for each element from the budget, as often as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from string import Formatter
from typing import Any

from noetl.expression.budget import CHARACTERS, DEPTH, LONG, Budget
from noetl.expression.values import SCALARS, Fault, Missing, OutOfBudget, Sealed, Undefined, clipped, kind_of, unwrapped

_INDENTED_COST = 64  # json writes indented text in Python, an element at a time
MAX_WIDTH = 1000  # of one formatted field


class Evaluation:
    """One evaluation under way: its budget, the template's own variables, and the text that it prints."""

    __slots__ = ("budget", "holes", "locals", "out", "sealed", "size")

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.locals: dict[str, Any] = {}
        self.out: list[str] = []
        self.size = 0
        self.holes = False  # a missing value was put into a list or map
        self.sealed = False  # a secret was printed

    def print(self, value: Any) -> None:
        """Appends the text of a value to the output; a secret makes all of it secret."""
        if type(value) is Sealed:
            self.sealed, value = True, value.content
        text = value if type(value) is str else to_text(value, self.budget)
        self.size += len(text)
        if self.size > CHARACTERS:
            raise OutOfBudget(f"the result may have at most {CHARACTERS:,} characters")
        self.out.append(text)


def to_text(value: Any, budget: Budget) -> str:
    """The text that a template prints for a value: Python's str, as in Jinja."""
    if type(value) is str:
        return value
    value = unwrapped(value, budget.contents)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | float) or value is None:
        return _scalar(value)
    parts: list[str] = []
    _write(value, parts, budget, 0)
    return budget.counted("".join(parts))


def _scalar(value: Any) -> str:
    try:
        return str(value)
    except ValueError:
        raise Fault("the number has too many digits to print") from None


def _write(value: Any, parts: list[str], budget: Budget, depth: int) -> None:
    value = unwrapped(value, budget.contents)
    budget.charge(32)
    if isinstance(value, str):
        budget.string(len(value))
        parts.append(repr(value))
    elif isinstance(value, Mapping):
        _write_items(budget.each(list(value.items())), "{", "}", parts, budget, depth)
    elif isinstance(value, list | tuple):
        opening, closing = ("[", "]") if isinstance(value, list) else ("(", ",)" if len(value) == 1 else ")")
        _write_items(((element,) for element in budget.each(value)), opening, closing, parts, budget, depth)
    elif isinstance(value, Missing):
        raise Undefined(value)
    elif isinstance(value, int | float) or value is None:
        parts.append(_scalar(value))
    else:
        raise Fault(f"{kind_of(value)} cannot be used as text")


def _write_items(items: Any, opening: str, closing: str, parts: list[str], budget: Budget, depth: int) -> None:
    if depth >= DEPTH:
        raise Fault("the value is nested too deeply to print")
    separator = opening
    for group in items:
        parts.append(separator)
        for place, value in enumerate(group):
            if place:
                parts.append(": ")
            _write(value, parts, budget, depth + 1)
        separator = ", "
    parts.append(closing if separator != opening else opening + closing)


def to_json(value: Any, budget: Budget, indent: int | None = None) -> str:
    """Plain JSON with sorted keys, so that equal values give equal text."""
    import json  # `noetl validate` starts without it

    value = unwrapped(value, budget.contents)
    _measure(value, budget, 0, indent or 0)
    separators = (",", ": ") if indent else (", ", ": ")

    def plain(value: Any) -> Any:
        value = unwrapped(value, budget.contents)
        return dict(value) if isinstance(value, Mapping) else value

    text = json.dumps(
        value, ensure_ascii=False, allow_nan=False, sort_keys=True, indent=indent, separators=separators, default=plain
    )
    return budget.counted(text)


def _measure(value: Any, budget: Budget, depth: int, indent: int) -> None:
    """Pays for the JSON of a value before it is written; refuses what JSON does not have."""
    budget.charge(8 + indent * (_INDENTED_COST + depth))
    if depth >= DEPTH and isinstance(value, list | tuple | Mapping):
        raise Fault("the value is nested too deeply for JSON")
    if isinstance(value, str):
        budget.string(len(value))
    elif isinstance(value, list | tuple):
        for element in budget.each(value):
            _measure(unwrapped(element, budget.contents), budget, depth + 1, indent)
    elif isinstance(value, Mapping):
        for key, element in budget.each(list(value.items())):
            _measure(key, budget, depth + 1, indent)
            _measure(unwrapped(element, budget.contents), budget, depth + 1, indent)
    elif isinstance(value, Missing):
        raise Undefined(value)
    elif not isinstance(value, int | float) and value is not None:
        raise Fault(f"{kind_of(value)} cannot be written as JSON")


_PRINTF = re.compile(
    r"%(?:\((?P<key>[^)]*)\))?(?P<flags>[-#0 +]*)(?P<width>\d*)(?:\.(?P<precision>\d*))?(?P<type>.)", re.S
)


def printf(template: str, arguments: Any, budget: Budget) -> str:
    """template % arguments, with bounded fields and no `*`."""
    arguments = unwrapped(arguments, budget.contents)
    by_name = isinstance(arguments, Mapping)
    queue = list(arguments) if isinstance(arguments, tuple) else [arguments]
    parts: list[str] = []
    end = used = 0
    for match in _PRINTF.finditer(template):
        parts.append(template[end : match.start()])
        end = match.end()
        if match["type"] == "%":
            parts.append("%")
            continue
        if match["key"] is not None:
            if not by_name:
                raise Fault("a named field needs named arguments")
            value = _named(arguments, match["key"])
        elif used < len(queue):
            value, used = queue[used], used + 1
        else:
            raise Fault("not enough arguments for the format string")
        budget.check()
        parts.append(budget.counted(_printf_field(match, value, budget)))
    if used < len(queue) and not by_name:
        raise Fault("not all arguments are used by the format string")
    parts.append(template[end:])
    if "%" in parts[-1]:
        raise Fault("the format string ends within a field", "write %% for a percent sign")
    budget.string(sum(map(len, parts)))
    return "".join(parts)


def _named(arguments: Mapping[str, Any], key: str) -> Any:
    if key not in arguments:
        raise Fault(f"the format string names {clipped(repr(key))}, which is not an argument")
    return arguments[key]


def _printf_field(match: re.Match[str], value: Any, budget: Budget) -> str:
    kind = match["type"]
    if kind not in "diufFeEgGsrxXoc":
        raise Fault(f"the format string has an unknown field type {kind!r}")
    value = _field_value(value, match, budget)
    if kind in "sr":
        value = to_text(value if kind == "s" else [value], budget)
        value = value[1:-1] if kind == "r" else value
        kind = "s"
    elif not isinstance(value, int | float) and not (kind == "c" and isinstance(value, str)):
        raise Fault(f"a %{kind} field needs a number, not {kind_of(value)}")
    precision = "" if match["precision"] is None else "." + match["precision"]
    spec = f"%{match['flags']}{match['width']}{precision}{kind}"
    try:
        return spec % (value,)
    except (ValueError, TypeError, OverflowError) as error:
        raise Fault(f"the format string does not fit its argument: {error}") from None


def _field_value(value: Any, field: re.Match[str], budget: Budget) -> Any:
    for count in (field["width"], field["precision"]):
        if count and (len(count) > 4 or int(count) > MAX_WIDTH):
            raise Fault(f"a formatted field may be at most {MAX_WIDTH} wide")
    value = unwrapped(value, budget.contents)
    if isinstance(value, Missing):
        raise Undefined(value)
    return value


_SPEC = re.compile(r"(?:.?[<>=^])?[-+ ]?z?#?0?(?P<width>\d*)[,_]?(?:\.(?P<precision>\d+))?[bcdeEfFgGosxX%]?", re.S)


def format_fields(template: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], budget: Budget) -> str:
    """str.format without attribute and item access, which is how format strings escape from sandboxes."""
    parts: list[str] = []
    automatic = 0
    for literal, name, spec, conversion in Formatter().parse(template):
        parts.append(literal)
        if name is None:
            continue
        if not name:
            name, automatic = str(automatic), automatic + 1
        budget.check()
        if name not in kwargs and name.isdecimal() and len(name) < 5:
            if int(name) >= len(args):
                raise Fault("not enough arguments for the format string")
            value = args[int(name)]
        elif name not in kwargs and not name.isidentifier():
            raise Fault("fields of a format string are names or numbers", "pass the value itself in")
        else:
            value = _named(kwargs, name)
        parts.append(budget.counted(_format_field(value, spec or "", conversion, budget)))
    budget.string(sum(map(len, parts)))
    return "".join(parts)


def _format_field(value: Any, spec: str, conversion: str | None, budget: Budget) -> str:
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise Fault("the format string has a field that is not understood")
    value = _field_value(value, match, budget)
    if conversion is not None and conversion != "s":
        raise Fault("only the conversion !s can be used in a format string")
    if conversion == "s" or not isinstance(value, int | float | str):
        value = to_text(value, budget)
    return format(value, spec)


# --- data that can be stored

SMALLEST, LARGEST = -(2**63), 2**64 - 1
_STORED_COST = 8  # of a value in JSON, besides the text in it


def storable(value: Any, budget: Budget, depth: int = 0) -> Any:
    """The storable form of a value: tuples become lists; Fault for a value that JSON or the store does not support.

    A value that the store would reject is rejected here, so that the error names the template.
    """
    kind = type(value)
    if kind is str:
        return _storable_text(value, budget)
    if kind is int and not SMALLEST <= value <= LARGEST:
        raise Fault("an integer must not have more than 64 bits")
    if kind is float and not isfinite(value):
        raise Fault("the number is too large to be stored" if value == value else "NaN cannot be stored")
    if kind in SCALARS or not isinstance(value, list | tuple | Mapping):
        return value
    if depth >= DEPTH:
        raise Fault(f"the value is nested too deeply: {DEPTH} levels are the limit")
    budget.check()
    size = 0
    parts: list[Any] | tuple[Any, ...]
    if isinstance(value, Mapping):
        budget.allowance.store(_STORED_COST * (2 * len(value) + 1))
        for key in value if len(value) <= LONG else budget.each(list(value)):
            if type(key) is not str:
                hint = "write it in quotes, or use `| string`"
                raise Fault(f"the map key {str(key)[:40]!r} is not text", hint)
            size += len(_storable_text(key, budget))
        parts = list(value.values())
    else:
        budget.allowance.store(_STORED_COST * (len(value) + 1))
        parts = value
    same, stored = True, []
    for part in parts if len(parts) <= LONG else budget.each(parts):
        kind_of_part = type(part)
        if kind_of_part is str and len(part) <= LONG and part.isascii():
            size += len(part)
            stored.append(part)
        elif kind_of_part is int and SMALLEST <= part <= LARGEST:
            stored.append(part)
        else:
            stored.append(storable(part, budget, depth + 1))
            same = same and stored[-1] is part
    budget.allowance.store(size)
    if same and kind in (dict, list):
        return value
    return dict(zip(value, stored, strict=True)) if isinstance(value, Mapping) else stored


def is_storable(constant: Any) -> bool:
    try:
        return storable(constant, Budget()) is constant
    except Fault:
        return False


def _storable_text(value: str, budget: Budget) -> str:
    if len(value) > LONG:
        budget.check()
        budget.allowance.store(len(value))
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Fault("the text has half of a surrogate pair, which cannot be stored") from None
    return value
