"""The filters: what `{{ value | name(arguments) }}` can do.

A filter is never called with a missing value (the result is then missing too), except `default`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from noetl.expression import text_filters, value_filters
from noetl.expression.budget import Budget
from noetl.expression.entries import Entry, entries_of, entry, getter, named, sequence
from noetl.expression.fault import Fault
from noetl.expression.missing import NOTHING, Missing, unwrapped
from noetl.expression.predicates import check


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
    return [_apply(budget, args[0], element, args[1:], kwargs) for element in budget.each(values)]


def _apply(budget: Budget, name: Any, value: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    entry = FILTERS.get(name) if isinstance(name, str) else None
    if entry is None:
        raise Fault(f"unknown filter {named(name)}")
    if entry.refuses(len(args), list(kwargs)):
        raise Fault(f"filter '{name}' takes {entry.signature}")
    budget.check()
    value = unwrapped(value, budget.contents)
    if isinstance(value, Missing) and name not in TOLERANT:
        return value
    return entry.call(budget, value, *args, **kwargs)


def _selection(by_field: bool, wanted: bool, doc: str) -> Entry:
    """A filter that keeps the elements which, or a field of which, pass a test (or fail it)."""

    def call(budget: Budget, value: Any, *args: Any) -> list[Any]:
        values = sequence(budget, value)
        budget.elements(len(values))
        if by_field and not args:
            raise Fault("the name of a field is needed")
        get, test = (getter(budget, args[0]), args[1:]) if by_field else (getter(budget, None), args)
        return [
            element
            for element in budget.each(values)
            if (check(budget, test[0], get(element), test[1:]) if test else bool(get(element))) is wanted
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
